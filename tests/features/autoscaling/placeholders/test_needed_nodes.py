"""The new nodes that waiting pods need: as many as the filters fill, of the cheapest kind that helps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.explain.snapshot_dump import read_moment
from scheduler_ext.extender.new_nodes import NewNodes
from scheduler_ext.features.autoscaling.placeholders.needed_nodes import (
    NeededNode,
    PlaceholderPlanner,
    RefusedPod,
    placeholder_name,
)
from scheduler_ext.features.autoscaling.placeholders.placeholder_job import placeholder_job
from scheduler_ext.sources.clusterstate import state_of
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import read_objects
from scheduler_ext.wire.pod.pod_request import pod_request
from tests.kube_objects import ANNOTATION, Json, gpu, gpu_node, inventory, node, pod
from tests.wire.decoded_pods import decoded

WHOLE = "nvidia.com/gpu"
TYPE, POOL = "node.kubernetes.io/instance-type", "eks.amazonaws.com/nodegroup"
KARPENTER = "karpenter.sh/nodepool"
CONFIG = Configuration()


def whole_node(name: str, gpus: int, held: int, model: str = "A100-80GB", **labels: str) -> list[Json]:
    """A node of a kind with so many GPUs held by other pods."""
    kind = {TYPE: f"{model}.{gpus}", POOL: model, "kubernetes.io/hostname": name, **labels}
    devices = [gpu(i, f"{name}-{i}", model=model) for i in range(gpus)]
    there = [gpu_node(name, devices), node(name, {WHOLE: str(gpus)}, labels=kind)]
    return [*there, *([pod(f"on-{name}", {WHOLE: str(held)}, on=name)] if held else [])]


def needed(
    objects: Sequence[Json], *waiting: Json, most: int = 9, offered: Sequence[str] | None = None, **more: Any
) -> list[NeededNode]:
    """The nodes that pods need which were refused on all nodes, or on the `offered` ones."""
    read = read_objects(inventory(*objects, *waiting))
    state = state_of(read, "inventory.yaml", CONFIG.resource_names())
    moment = read_moment(state, CONFIG)
    sizing = CONFIG.sizing()
    planner = PlaceholderPlanner(moment.snapshot, moment.node_facts(), NewNodes(sizing), sizing, **more)
    names = set(moment.snapshot.nodes) if offered is None else set(offered)
    return planner.needed([RefusedPod(each, names) for each in moment.pending()], most)


def kinds(found: Sequence[NeededNode]) -> list[tuple[str, str]]:
    return [(each.pod.pod.name, dict(each.labels)[TYPE]) for each in found]


def test_a_pod_that_a_full_kind_would_take_needs_one_node_of_it() -> None:
    (found,) = needed(whole_node("a", 4, held=3), pod("p", {WHOLE: "2"}))
    assert found.labels == ((POOL, "A100-80GB"), (TYPE, "A100-80GB.4"))
    assert (found.amounts, found.away, found.example) == ({WHOLE: 4}, (), "a")


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([2, 2, 2, 2], 2, id="two pods on each node"),
        pytest.param([3, 3, 1, 1], 2, id="a small pod beside a large one"),
        pytest.param([3, 3, 3], 3, id="no two fit on one"),
        pytest.param([5], 0, id="none would take it"),
    ],
)
def test_pods_share_new_nodes_as_the_filters_let_them(pods: list[int], expected: int) -> None:
    waiting = [pod(f"p{i}", {WHOLE: str(count)}) for i, count in enumerate(pods)]
    assert len(needed(whole_node("a", 4, held=4), *waiting)) == expected


def test_the_cheapest_kind_that_helps_is_chosen_and_the_next_one_after_a_vain_try() -> None:
    objects = [
        *whole_node("h", 4, held=4, model="H100-80GB"),
        *whole_node("t", 4, held=4, model="T4"),
        *whole_node("l", 4, held=4, model="L4"),
    ]
    asking = pod("p", {WHOLE: "1"}, annotations={f"{ANNOTATION}model": "H100,L4"})
    assert kinds(needed(objects, asking)) == [("p", "L4.4")]
    assert kinds(needed(objects, asking, tries={"uid-p": 1})) == [("p", "H100-80GB.4")]
    assert kinds(needed(objects, asking, tries={"uid-p": 2})) == [("p", "L4.4")]


def test_only_nodes_that_kube_scheduler_offered_count() -> None:
    """The others are refused by kube-scheduler's own filters, as an autoscaler sees by itself."""
    objects = [*whole_node("a", 4, held=4), *whole_node("b", 4, held=4, model="T4")]
    assert kinds(needed(objects, pod("p", {WHOLE: "1"}), offered=["a"])) == [("p", "A100-80GB.4")]
    assert needed(objects, pod("p", {WHOLE: "1"}), offered=[]) == []


def test_a_full_kind_is_needed_where_no_offered_one_would_take_the_pod() -> None:
    """An autoscaler expects the pod on the free T4, which only the extender knows to be another model."""
    objects = [*whole_node("a", 4, held=4), *whole_node("b", 4, held=0, model="T4")]
    asking = pod("p", {WHOLE: "1"}, annotations={f"{ANNOTATION}model": "A100-80GB"})
    (found,) = needed(objects, asking, offered=["b"])
    assert (kinds([found]), found.away) == ([("p", "A100-80GB.4")], ())
    assert needed(objects, asking, offered=[]) == []
    # kube-scheduler may have left the node out for the volume.
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    assert needed(objects, asking | {"spec": asking["spec"] | {"volumes": [volume]}}, offered=["b"]) == []
    partly = [*whole_node("a", 4, held=3), *whole_node("b", 4, held=0, model="T4")]
    two = pod("p", {WHOLE: "2"}, annotations={f"{ANNOTATION}model": "A100-80GB"})
    assert kinds(needed(partly, two, offered=["b"])) == [("p", "A100-80GB.4")]


def test_the_most_important_pods_come_first_where_there_is_a_limit() -> None:
    waiting = [pod(f"p{i}", {WHOLE: "4"}, priority=priority) for i, priority in enumerate((0, 9, 5))]
    found = needed(whole_node("a", 4, held=4), *waiting, most=2)
    assert [each.pod.pod.name for each in found] == ["p1", "p2"]


def test_a_present_placeholder_stays_for_its_pod() -> None:
    objects = whole_node("a", 4, held=4)
    first = pod("p0", {WHOLE: "4"})
    (before,) = needed(objects, first)
    more = [first, pod("p1", {WHOLE: "4"}, priority=9)]
    found = needed(objects, *more, most=1, existing={before.name})
    assert [each.name for each in found] == [before.name]


def starting_node(name: str, model: str = "A100-80GB") -> Json:
    """A node of a kind that an autoscaler has added, whose device plugin and agent still start."""
    kind = {TYPE: f"{model}.4", POOL: model, "kubernetes.io/hostname": name}
    taint = {"key": "gpu.scheduler-ext.io/starting", "effect": "NoSchedule"}
    return node(name, {}, labels=kind, taints=[taint])


def test_a_node_that_starts_is_no_longer_needed() -> None:
    objects, asking = whole_node("a", 4, held=4), pod("p", {WHOLE: "4"})
    (before,) = needed(objects, asking)
    objects = [*objects, starting_node("b")]
    assert needed(objects, asking, offered=["a"]) == []
    assert needed(objects, asking, offered=["a"], existing={before.name}) == []


def test_a_starting_node_counts_once_and_for_its_kind_alone() -> None:
    objects = whole_node("a", 4, held=4)
    waiting = [pod(f"p{i}", {WHOLE: "4"}) for i in range(2)]
    found = needed([*objects, starting_node("b")], *waiting, offered=["a"], most=1)
    assert [each.pod.pod.name for each in found] == ["p1"]
    other = [*objects, starting_node("b", model="T4")]
    assert len(needed(other, *waiting, offered=["a"])) == 2


def test_a_node_without_a_label_of_its_kind_cannot_be_asked_for() -> None:
    objects = [gpu_node("a", [gpu(0)]), node("a", {WHOLE: "1"}), pod("held", {WHOLE: "1"}, on="a")]
    assert needed(objects, pod("p", {WHOLE: "1"})) == []


def in_use(name: str, **labels: str) -> list[Json]:
    """A node without pods, whose memory strangers use: an autoscaler takes it for free."""
    memory = {"totalMiB": 81920, "usedMiB": 80000, "unaccountedMiB": 80000}
    kind = {TYPE: "large", "kubernetes.io/hostname": name, **labels}
    return [gpu_node(name, [gpu(0, f"{name}-0", memory=memory)]), node(name, {WHOLE: "1"}, labels=kind)]


WITH_MEMORY = pod("p", {WHOLE: "1"}, annotations={f"{ANNOTATION}min-free-memory": "40Gi"})


def test_nodes_that_look_free_to_an_autoscaler_are_left_out_by_name() -> None:
    (found,) = needed([*in_use("a"), *in_use("b")], WITH_MEMORY)
    assert found.away == ("a", "b")


def test_karpenter_cannot_leave_out_nodes_by_name() -> None:
    """It ignores pods whose affinity names a hostname, so a placeholder would be in vain."""
    objects = in_use("a", **{KARPENTER: "pool"})
    assert needed(objects, WITH_MEMORY) == []
    # The one that is there has brought a node, which looks free until the pod is on it.
    name = placeholder_name("uid-p", ((KARPENTER, "pool"), (TYPE, "large")))
    assert [each.name for each in needed(objects, WITH_MEMORY, existing={name})] == [name]


def test_a_placeholder_asks_for_a_whole_node_under_the_constraints_of_its_pod() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x", "y"]}]}
    asking = pod(
        "p",
        {WHOLE: "2", "cpu": "3"},
        nodeSelector={"zone": "x"},
        tolerations=[{"key": WHOLE, "operator": "Exists"}],
        affinity={
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        },
    )
    (found,) = needed(whole_node("a", 4, held=4, zone="x"), asking)
    job = placeholder_job(found, "gpu-scheduler", 900.0)
    assert job["metadata"]["annotations"] == {
        f"{ANNOTATION}waiting-pod": "default/p",
        f"{ANNOTATION}waiting-pod-uid": "uid-p",
    }
    assert job["spec"]["activeDeadlineSeconds"] == 900
    assert job["spec"]["ttlSecondsAfterFinished"] == 0
    spec = job["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"zone": "x"}
    assert spec["tolerations"] == [{"key": WHOLE, "operator": "Exists"}]
    (required,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert required["matchExpressions"] == [
        {"key": "zone", "operator": "In", "values": ["x", "y"]},
        {"key": POOL, "operator": "In", "values": ["A100-80GB"]},
        {"key": TYPE, "operator": "In", "values": ["A100-80GB.4"]},
    ]
    (container,) = spec["containers"]
    assert container["resources"] == {"requests": {WHOLE: "4", "cpu": "3000m"}, "limits": {WHOLE: "4"}}
    # Below this, cluster-autoscaler adds no node for a pod (--expendable-pods-priority-cutoff).
    assert (spec["priorityClassName"], spec["automountServiceAccountToken"]) == ("gpu-placeholder", False)


def test_the_request_of_a_placeholder_fits_nowhere() -> None:
    (found,) = needed(whole_node("a", 4, held=4), pod("p", {WHOLE: "2"}))
    template = placeholder_job(found, "gpu-scheduler", 900.0)["spec"]["template"]
    request = pod_request(decoded(template), CONFIG.resource_names())
    assert isinstance(request, GpuRequest)
    assert request.is_placeholder
