"""How many more pods of a template fit on a running extender's cluster: as many as `capacity` counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from scheduler_ext.core.errors import ConfigError
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.explain.snapshot_dump import read_moment
from scheduler_ext.sources.clusterstate import ClusterState, state_of
from scheduler_ext.whatif.capacity import capacity
from scheduler_ext.whatif.schedulable import SchedulableReplicas
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration, MetricsSection, PodTemplate, check
from scheduler_ext.wire.objects import read_objects
from tests.extender.preempting import whole_node
from tests.kube_objects import SHARE, Json, gpu, gpu_node, inventory, node, pod
from tests.pages import SAMPLE

WHOLE = "nvidia.com/gpu"
NODES = inventory(
    *(gpu_node("a", [gpu(i, f"a{i}") for i in range(8)]), node("a", {WHOLE: "8"}, labels={"zone": "x"})),
    *(gpu_node("b", [gpu(i, f"b{i}") for i in range(8)]), node("b", {WHOLE: "8"}, labels={"zone": "y"})),
    *(
        gpu_node("c", [gpu(0, "c0")]),
        node("c", {WHOLE: "1"}, taints=[{"key": "team", "effect": "NoSchedule"}]),
    ),
    pod("held", {WHOLE: "3", "cpu": "50"}, on="b"),
)


def template(limits: Json, annotations: Json | None = None, **spec: Any) -> PodTemplate:
    made = pod("p", limits, annotations=annotations, **spec)
    return PodTemplate(made["spec"], {"annotations": made["metadata"]["annotations"]})


def config_with(**templates: PodTemplate) -> Configuration:
    return Configuration(metrics=MetricsSection(schedulable_replicas=dict(templates)))


def read(text: bytes, config: Configuration) -> ClusterState:
    return state_of(read_objects(text), "inventory.yaml", config.resource_names())


def both_counts(text: bytes, asking: PodTemplate) -> tuple[int, Any]:
    """Those for the metric, and those of the command."""
    config = config_with(p=asking)
    check(config)
    state = read(text, config)
    replicas = SchedulableReplicas(read_moment(state, config), config)
    assert replicas.counts() == {}
    replicas.count()
    given = {"metadata": {"name": "p", **asking.metadata}, "spec": asking.spec}
    made = msgspec.json.decode(json.dumps(given), type=kube.Pod)
    return replicas.counts()["p"], capacity(made, state, config)["total"]


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        pytest.param(template({WHOLE: "1"}), 13, id="whole GPUs"),
        pytest.param(template({WHOLE: "1", "cpu": "7"}), 10, id="CPU is short before GPUs are"),
        pytest.param(template({WHOLE: "1"}, nodeSelector={"zone": "y"}), 5, id="nodes with a label"),
        pytest.param(
            template({WHOLE: "1"}, tolerations=[{"key": "team", "operator": "Exists"}]),
            14,
            id="a tolerated taint",
        ),
    ],
)
def test_as_many_as_capacity_counts(asking: PodTemplate, expected: int) -> None:
    assert both_counts(NODES, asking) == (expected, expected)


@pytest.mark.parametrize(
    "limits", [{WHOLE: "1"}, {SHARE: "8192"}, {SHARE: "20000"}, {"nvidia.com/mig-2g.48gb": "1"}]
)
def test_the_sample_cluster_has_room_for_as_many(limits: Json) -> None:
    counted, expected = both_counts(SAMPLE.read_bytes(), template(limits))
    assert counted == expected > 0


def test_nothing_is_counted_again_before_something_changes() -> None:
    """A cordon counts though the GPUs are the same."""
    config = config_with(p=template({WHOLE: "1"}))
    moment = read_moment(read(NODES, config), config)
    facts = dict(moment.node_facts())

    class Followed:
        snapshot, claims = moment.snapshot, moment.claims

        def node_facts(self) -> Mapping[str, NodeFacts]:
            return dict(facts)

    replicas = SchedulableReplicas(Followed(), config)
    replicas.count()
    first = replicas.counts()
    replicas.count()
    assert replicas.counts() is first
    facts["a"] = replace(facts["a"], unschedulable=True)
    replicas.count()
    assert replicas.counts() == {"p": 5}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        pytest.param(template({}), "it requests no GPU; add a GPU resource", id="no GPU"),
        pytest.param(template({WHOLE: "many"}), "container 'main': 'nvidia.com/gpu': ", id="no amount"),
        pytest.param(PodTemplate({"containers": 1}), "spec.containers: Expected `array", id="no containers"),
    ],
)
def test_a_template_that_cannot_be_counted_is_an_error(wrong: PodTemplate, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(config_with(p=wrong))
    assert str(caught.value).startswith(f"metrics.schedulableReplicas.p: {message}")


def test_equal_nodes_take_as_many_each() -> None:
    nodes = [each for name in "abc" for each in whole_node(name, None, None)]
    assert both_counts(inventory(*nodes), template({WHOLE: "1"})) == (6, 6)
