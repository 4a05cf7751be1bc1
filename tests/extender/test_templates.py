"""Templates of node groups, as cluster-autoscaler sends them in `Nodes`: nodes that do not exist yet.

It copies a node of the group, or builds one from the tags of an empty group, as `autoscaler-config` has them.
The copy has another name, uid and hostname, one label more, and no startup taints
(simulator/node_info_utils.go).
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from scheduler_ext.extender.extender import Extender
from scheduler_ext.nodegroups.cluster_autoscaler import cluster_autoscaler_settings
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects
from tests.kube_objects import (
    ANNOTATION,
    GFD_H100,
    SHARE,
    Json,
    gpu,
    gpu_node,
    holder,
    inventory,
    node,
    nodes_body,
    pod,
)
from tests.nodegroups.tables import SHARES as BY_SHARES
from tests.nodegroups.tables import group, sliced, table

WHOLE = "nvidia.com/gpu"
HALF = "nvidia.com/mig-3g.40gb"
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"}
SHARED = A100 | {"gpu.scheduler-ext.io/sharing": "memory", "nvidia.com/gpu.count": "2"}
# Two GPUs less their headroom.
SHARED_MIB = "147456"

FULL = [
    node("whole-1", {WHOLE: "2"}, uid="u1", labels=GFD_H100 | {"nvidia.com/gpu.count": "2"}),
    gpu_node("whole-1", [gpu(0, model="H100-80GB", total=81559, holders=[holder("a")]), gpu(1)]),
    pod("a", {WHOLE: "2"}, on="whole-1"),
    node("shares-1", {SHARE: SHARED_MIB}, uid="u2", labels=SHARED),
    gpu_node("shares-1", [gpu(0, memory={"totalMiB": 81920, "usedMiB": 70000}), gpu(1)]),
]


def template(group: str, allocatable: Json, labels: Json, **spec: Any) -> Json:
    """The template of a group, from the labels and resources of its nodes."""
    name = f"template-node-for-{group}-5577006791947779410"
    own = {"kubernetes.io/hostname": name, "cluster-autoscaler.kubernetes.io/template-node": "true"}
    return node(name, allocatable, uid="6ba7b810-9dad-11d1-80b4-00c04fd430c8", labels=labels | own, **spec)


@pytest.fixture
def extender() -> Extender:
    """All its nodes are full."""
    built = Extender(Configuration())
    built.replace_nodes(assemble(read_objects(inventory(*FULL)), Configuration().resource_names()).values())
    return built


def fits(extender: Extender, asking: Json, sent: Json) -> str:
    """Empty if the template takes the pod, otherwise the reason. The snapshot stays the same."""
    before = extender.snapshot
    reply = json.loads(extender.filter(nodes_body(asking, [sent]), time.monotonic() + 60).body)
    assert extender.snapshot is before
    refused: dict[str, str] = reply["FailedAndUnresolvableNodes"]
    if not refused:
        assert reply["Nodes"]["items"] == [sent]
        return ""
    (reason,) = refused.values()
    return reason


def wish(name: str, value: str, limits: Json) -> Json:
    return pod("p", limits, annotations={f"{ANNOTATION}{name}": value})


def tagged(**fields: Any) -> Json:
    """The template of a group at zero, from the tags that `autoscaler-config` prints."""
    (settings,) = cluster_autoscaler_settings(table(group(**fields)))["groups"]
    tags = {
        kind: {
            key.removeprefix(prefix): value
            for key, value in settings["tags"].items()
            if key.startswith(prefix)
        }
        for kind in ("label", "resources")
        if (prefix := f"k8s.io/cluster-autoscaler/node-template/{kind}/")
    }
    return template("tagged", tags["resources"], tags["label"])


MODEL = "node(s) didn't match the requested GPU model"
PLACES = "node(s) had no free MIG placement"
SHORT = "Insufficient nvidia.com/gpu per device"
MEMORY = "Insufficient GPU memory on one device"
SMALL = "node(s) had GPUs too small"
UNREPORTED = "node(s) had no fresh GPU inventory"
# Of a node of each group, whose model and layout the generated tags name as well.
H100S = template("h100", {WHOLE: "2"}, GFD_H100 | {"nvidia.com/gpu.count": "2"})
HALVES = template("mig", {HALF: "4", WHOLE: "0"}, A100 | {"nvidia.com/mig.strategy": "mixed"})
SHARES = template("shares", {SHARE: SHARED_MIB}, SHARED)


@pytest.mark.parametrize("sent", [H100S, tagged(model="H100-80GB")], ids=["of a node", "of tags"])
@pytest.mark.parametrize(
    ("asking", "reason"),
    [
        pytest.param(pod("p", {WHOLE: "2"}), "", id="its GPUs are free, whatever runs on its model"),
        pytest.param(pod("p", {WHOLE: "3"}), SHORT, id="more GPUs than a node has"),
        pytest.param(wish("model", "H100", {WHOLE: "1"}), "", id="its model"),
        pytest.param(wish("model", "T4", {WHOLE: "1"}), MODEL, id="another model"),
        pytest.param(wish("min-memory", "90Gi", {WHOLE: "1"}), SMALL, id="too little memory"),
    ],
)
def test_a_template_of_whole_gpus_is_the_empty_node_that_it_stands_for(
    extender: Extender, sent: Json, asking: Json, reason: str
) -> None:
    assert fits(extender, asking, sent) == reason


@pytest.mark.parametrize("sent", [HALVES, tagged(**sliced(p3g_40gb=2))], ids=["of a node", "of tags"])
@pytest.mark.parametrize(
    ("asking", "reason"),
    [
        pytest.param(pod("p", {HALF: "4"}), "", id="all its instances"),
        pytest.param(pod("p", {HALF: "5"}), PLACES, id="more instances"),
        pytest.param(wish("model", "A100-80GB", {HALF: "1"}), "", id="its model"),
        pytest.param(wish("model", "H100", {HALF: "1"}), MODEL, id="another model"),
    ],
)
def test_a_template_of_mig_is_the_empty_node_that_it_stands_for(
    extender: Extender, sent: Json, asking: Json, reason: str
) -> None:
    assert fits(extender, asking, sent) == reason


@pytest.mark.parametrize(
    "sent", [SHARES, tagged(model="A100-80GB", memoryMiB=81920, **BY_SHARES)], ids=["of a node", "of tags"]
)
@pytest.mark.parametrize(
    ("asking", "reason"),
    [
        pytest.param(pod("p", {SHARE: "73728"}), "", id="a share of a whole GPU"),
        pytest.param(pod("p", {SHARE: "73729"}), MEMORY, id="a share that needs two GPUs"),
        pytest.param(wish("model", "H100", {SHARE: "8192"}), MODEL, id="a share of another model"),
    ],
)
def test_a_template_of_shares_is_the_empty_node_that_it_stands_for(
    extender: Extender, sent: Json, asking: Json, reason: str
) -> None:
    assert fits(extender, asking, sent) == reason


def test_a_pod_with_a_share_on_each_gpu_of_a_tagged_group(extender: Extender) -> None:
    containers = [{"name": f"c{i}", "resources": {"limits": {SHARE: "70000"}}} for i in range(3)]
    sent = tagged(model="A100-80GB", memoryMiB=81920, **BY_SHARES)
    assert fits(extender, pod("p", containers=containers[:2]), sent) == ""
    assert fits(extender, pod("p", containers=containers), sent) == MEMORY


def test_a_node_of_the_same_labels_that_exists_needs_a_report_for_shares(extender: Extender) -> None:
    """kube-scheduler with nodeCacheCapable false sends it without the label of a template."""
    sent = node("shares-2", {SHARE: SHARED_MIB}, uid="u3", labels=SHARED)
    assert fits(extender, pod("p", {SHARE: "8192"}), sent) == UNREPORTED


def test_a_group_whose_labels_lack_the_memory_takes_no_shares(extender: Extender) -> None:
    unlabelled = {"gpu.scheduler-ext.io/sharing": "memory"}
    sent = template("shares", {SHARE: SHARED_MIB}, unlabelled)
    assert fits(extender, pod("p", {SHARE: "8192"}), sent) == UNREPORTED
