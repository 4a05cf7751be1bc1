"""Whether a new node of a kind would take a pod: by reason, and beside an oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.gpu.gpu import Device, Memory
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.state import resolve
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.explain.autoscaling import new_node_in_words
from scheduler_ext.extender.new_nodes import Cure, NewNodes
from scheduler_ext.wire.config import Configuration
from tests import oracle
from tests.core.asked import whole
from tests.explain.explaining import explained
from tests.extender.preempting import extender_on
from tests.kube_objects import ANNOTATION, Json, gpu, gpu_node, node, pod
from tests.strategies import RESOURCES, clusters, several_requests, snapshot_of

WHOLE = "nvidia.com/gpu"
TWO_G = "nvidia.com/mig-2g.20gb"
SIZING: Sizing = Configuration().sizing()
SHARES = {"gpu.scheduler-ext.io/sharing": "memory"}
MIXED = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.count": "1",
    "nvidia.com/mig.strategy": "mixed",
    "nvidia.com/mig-2g.20gb.count": "3",
}
SICK = {"state": "Unhealthy", "reason": "XID 79"}


def wishes(limits: Json, **annotations: str) -> Json:
    return pod("p", limits, annotations={ANNOTATION + k.replace("_", "-"): v for k, v in annotations.items()})


def sick_node(count: int, sick: int) -> list[Json]:
    """A node as the kubelet describes it: sick GPUs are in the capacity alone."""
    there = node("n", {WHOLE: str(count - sick)})
    there["status"]["capacity"] = there["status"]["capacity"] | {WHOLE: str(count)}
    unhealthy: Json = {"health": SICK}
    devices = [gpu(i, **(unhealthy if i < sick else {})) for i in range(count)]
    return [gpu_node("n", devices), there]


def plain(**spec: Any) -> list[Json]:
    """A node with a GPU."""
    return [gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"}, **spec)]


ONE = pod("p", {WHOLE: "1"})
ROWS = [
    pytest.param(
        pod("p", {WHOLE: "2"}),
        [gpu_node("n", [gpu(0), gpu(1, health=SICK)]), node("n", {WHOLE: "1"})],
        "curable",
        id="a sick GPU that a device plugin has withdrawn from the capacity as well",
    ),
    pytest.param(
        ONE,
        [gpu_node("n", [gpu(0, health=SICK)]), node("n", {WHOLE: "0"})],
        "curable",
        id="a sick GPU, the only one, of which the Node shows nothing any more",
    ),
    pytest.param(
        wishes({WHOLE: "1"}, min_cuda="13.0"),
        plain(),
        "unknown",
        id="a driver that does not say its CUDA version",
    ),
    pytest.param(pod("p", {WHOLE: "x"}), plain(), "incurable", id="an invalid request"),
    pytest.param(
        pod("p", {TWO_G: "1"}),
        [node("n", {WHOLE: "0", TWO_G: "3"}, labels=MIXED)],
        "curable",
        id="a MIG instance on a node without a report, whose GPUs are all in MIG mode",
    ),
    pytest.param(
        pod("p", {TWO_G: "1"}),
        [node("n", {WHOLE: "0"}, labels=MIXED)],
        "unknown",
        id="a MIG instance on a node whose device plugin has yet to start",
    ),
    pytest.param(
        wishes({WHOLE: "1"}, model="H100"),
        [node("n", {WHOLE: "8"})],
        "unknown",
        id="GPUs of a model that nothing names",
    ),
    pytest.param(
        ONE,
        [gpu_node("n", [gpu(0)]), node("n", {WHOLE: "0"})],
        "unknown",
        id="a device plugin that has yet to start",
    ),
    pytest.param(ONE, [node("n")], "incurable", id="a node without GPUs"),
    pytest.param(
        ONE,
        plain(taints=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]),
        "curable",
        id="a node that is being removed",
    ),
    pytest.param(
        ONE,
        plain(taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}]),
        "incurable",
        id="a taint that stays",
    ),
    pytest.param(
        ONE,
        plain(taints=[{"key": "node.cilium.io/agent-not-ready", "effect": "NoExecute"}]),
        "curable",
        id="a node whose network still starts",
    ),
    pytest.param(ONE, plain(unschedulable=True), "curable", id="a cordoned node"),
    pytest.param(
        pod("p", {WHOLE: "1"}, nodeSelector={"kubernetes.io/hostname": "n"}),
        [*plain(labels={"kubernetes.io/hostname": "n"}), pod("other", {WHOLE: "1"}, on="n")],
        "incurable",
        id="a pod for one node alone",
    ),
    pytest.param(
        pod("p", {WHOLE: "1", "cpu": "40"}),
        [*plain(), pod("other", {"cpu": "40"}, on="n")],
        "curable",
        id="CPU that another pod holds",
    ),
    pytest.param(pod("p", {WHOLE: "1", "cpu": "65"}), plain(), "incurable", id="more CPU than the node has"),
]


@pytest.mark.parametrize(("asking", "objects", "expected"), ROWS)
def test_the_verdict_on_a_new_node(asking: Json, objects: list[Json], expected: Cure) -> None:
    explanation = explained(asking, *objects)
    (entry,) = explanation["nodes"]
    assert (entry["verdict"], entry["autoscaler"]) == ("rejected", expected)
    likely = ["n"] if expected != "incurable" else []
    others = {"curable": 0, "incurable": 0, "unknown": 0, "like": likely}
    assert explanation["autoscaler"] == others | {expected: 1}


def empty_copy(info: NodeInfo) -> NodeInfo:
    """The oracle's new node: field by field, whatever the old one had."""
    report = info.report
    if report is not None:
        report = replace(report, devices=tuple(_new_device(device) for device in report.devices))
    return NodeInfo(
        name="new",
        report=report,
        estimate=info.estimate,
        allocatable=info.allocatable,
        share_node=info.share_node,
        cpu_milli=info.cpu_milli,
        by_allocatable=info.report is None and info.estimate is not None,
    )


def _new_device(device: Device) -> Device:
    mig = replace(
        device.mig, instances=tuple(replace(instance, holder=None) for instance in device.mig.instances)
    )
    memory = Memory(device.memory.total_mib, device.memory.reserved_mib, 0, 0)
    return Device(
        device.uuid,
        device.index,
        device.vendor,
        device.product,
        device.model,
        device.compute_capability,
        memory,
        mig=mig,
    )


def takes(info: NodeInfo, request: GpuRequest) -> bool:
    state = resolve(info, RESOURCES, 10).state
    return all(passes(state, request) for passes in oracle.FILTERS.values())


def rules_out(info: NodeInfo, request: GpuRequest) -> bool:
    """Whether a property that is known of a report alone excludes every node like it, by plain counting."""
    assert info.report is not None
    devices = info.report.devices
    for ask in request.units:
        offered = max(len(devices) * info.report.replicas, sum(len(each.mig.instances) for each in devices))
        stated = info.allocatable.get(ask.resource, 0) if info.allocatable is not None else None
        if ask.count > offered or (stated and ask.count > stated):
            return True
    if request.min_cuda is not None and info.report.cuda_version is not None:
        return tuple(info.report.cuda_version[:2]) < tuple(request.min_cuda[:2])
    return False


@given(clusters(), several_requests)
def test_new_nodes_agree_with_empty_copies_that_the_oracle_judges(
    cluster: Sequence[NodeInfo], asked: list[GpuRequest]
) -> None:
    new_nodes, snapshot = NewNodes(SIZING), snapshot_of(cluster)
    for request in asked:
        cures = new_nodes.cures(request, snapshot)
        assert list(cures) == list(snapshot.nodes)
        for info in cluster:
            cure, settled = cures[info.name], not (info.changing and any(d.mig.enabled for d in info.devices))
            event(cure)
            counted = info.estimate is None or info.estimate.count > 0
            if (info.report or info.estimate) and settled and counted and cure != "unknown":
                stated, anything = empty_copy(info), replace(empty_copy(info), allocatable=None)
                # Of a sick GPU, the Node may have less than the new one.
                whole = stated.allocatable is None or all(device.healthy for device in info.devices)
                assert takes(stated, request) <= (cure == "curable")
                assert (cure == "curable") <= takes(stated if whole else anything, request)
            if info.report is not None and rules_out(info, request):
                assert cure == "incurable"


@given(clusters(), several_requests)
def test_a_node_that_takes_the_pod_now_is_of_a_kind_that_would(
    cluster: Sequence[NodeInfo], asked: list[GpuRequest]
) -> None:
    new_nodes, snapshot = NewNodes(SIZING), snapshot_of(cluster)
    for request in asked:
        cures = new_nodes.cures(request, snapshot)
        for info in cluster:
            if takes(replace(info, pods=()), request) and not any(d.cordoned for d in info.devices):
                assert cures[info.name] == "curable"


def test_a_changed_node_is_copied_again_and_others_are_kept() -> None:
    new_nodes = NewNodes(SIZING)
    extender = extender_on(*sick_node(2, 1))
    snapshot = extender.snapshot
    assert snapshot is not None
    request = whole(3)
    assert new_nodes.cures(request, snapshot) == {"n": "incurable"}
    larger = extender_on(*sick_node(3, 2)).snapshot
    assert larger is not None
    assert new_nodes.cures(request, larger) == {"n": "curable"}
    assert new_nodes.cures(request, snapshot) == {"n": "incurable"}


def test_kinds_that_are_gone_are_forgotten() -> None:
    new_nodes = NewNodes(SIZING)
    request = whole()
    for count in range(1, 121):
        snapshot = extender_on(gpu_node("n", [gpu(0, total=1000 + count)]), node("n", {WHOLE: "1"})).snapshot
        assert snapshot is not None
        assert new_nodes.cures(request, snapshot) == {"n": "curable"}
    assert len(new_nodes._kinds) < 100


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        pytest.param(
            {"curable": 5, "incurable": 1, "unknown": 1, "like": ["a", "b", "c", "d", "e"]},
            "A new node of the kind of a, b, c or 2 more would take the pod.",
            id="some kinds help",
        ),
        pytest.param(
            {"curable": 0, "incurable": 1, "unknown": 1, "like": ["a"]},
            "Whether a new node of the kind of a would take the pod is not known.",
            id="one kind may help",
        ),
        pytest.param(
            {"curable": 0, "incurable": 1, "unknown": 0, "like": []},
            "No node of these kinds ever takes the pod.",
            id="no kind helps",
        ),
    ],
)
def test_the_text_says_whether_a_new_node_helps(told: Json, sentence: str) -> None:
    assert new_node_in_words(told) == sentence
