"""The copies of a pod that a node takes: as many as placing one after the other."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from scheduler_ext.core.cycle.placement import SharePlacement, Sizing, place
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.gpu.gpu import Device, Memory, Report
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo
from scheduler_ext.core.node.promisable import overallocated
from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from scheduler_ext.core.request.request import GpuRequest, InitShare, ShareRequest, UnitRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.whatif.copies import Fill, Vessel, fill_all, filled
from tests.examples import examples
from tests.gpu_strategies import STRATEGIES, one_in
from tests.strategies import RESOURCES, clusters, requests, share_asks, snapshot_of

# More than most of the random nodes hold; a copy at a time takes long.
_MOST = 12


def copy_of(request: GpuRequest, found: SharePlacement, number: int) -> BoundPod:
    """The placed copy."""
    name = f"copy-{number}"
    holding = GpuRequest(request.units, request.shares, by_container=request.by_container)
    return BoundPod(name, "default", name, request.priority, holding, devices=found.devices)


def one_by_one(
    info: NodeInfo, request: GpuRequest, sizing: Sizing, most: int, within: Snapshot | None = None
) -> list[BoundPod]:
    """The copies, each placed by the core beside those before it; any number is allowed."""
    copies: list[BoundPod] = []
    while len(copies) < most:
        there = replace(info, pods=(*info.pods, *copies))
        found = place(there, request, sizing, within)
        if isinstance(found, str):
            break
        copies.append(copy_of(request, found, len(copies)))
        assert overallocated(there, copies[-1], RESOURCES) is None
    return copies


def check_fill(node: Node, request: GpuRequest, fill: Fill, sizing: Sizing) -> None:
    """As many as one by one, with equal holdings, and an equal refusal of the next."""
    copies = one_by_one(node.info, request, sizing, _MOST)
    assert fill.copies == len(copies)
    after = replace(node.info, pods=(*node.info.pods, *copies))
    merged = filled(node, request, fill, sizing)
    if fill.copies < _MOST:
        assert place(merged, request, sizing) == place(after, request, sizing)
    # For single shares, the GPUs of copies may differ where not all of them are full.
    if request.shares is None or len(request.shares.by_container) > 1:
        states = [replace(sizing.resolved(each).state, neighbours=0) for each in (merged, after)]
        assert states[0] == states[1]


def device(index: int, memory: Memory, name: str = "A100-80GB") -> Device:
    model = canonical_model(name, vendor="nvidia")
    return Device(f"GPU-{index}", index, "nvidia", model.name, model, (8, 0), memory)


def on_gpu(name: str, index: int, mib: int) -> BoundPod:
    holding = GpuRequest(shares=ShareRequest((("main", mib),)))
    return BoundPod(name, "default", name, 0, holding, {"main": (f"GPU-{index}",)})


ON_ANY_GPU = BoundPod("whole", "default", "whole", 0, GpuRequest((UnitRequest("nvidia.com/gpu", 1),)))


@st.composite
def share_nodes(draw: DrawFn) -> NodeInfo:
    """A node of a few GPUs for shares with different use, reservations and promises; an unknown pod may hold
    a whole one, and the node may offer less than its GPUs.
    """
    devices = []
    for i in range(draw(st.integers(1, 4))):
        total_mib, model = draw(st.sampled_from(((40_960, "A100-40GB"), (81_920, "A100-80GB"))))
        used_mib = draw(st.sampled_from((0, 0, 9_000, 20_000)))
        unaccounted_mib = draw(st.sampled_from((None, 0, used_mib)))
        memory = Memory(total_mib, draw(st.sampled_from((0, 700))), used_mib, unaccounted_mib)
        devices.append(device(i, memory, model))
    pods = []
    for i in range(len(devices)):
        mib = draw(st.sampled_from((0, 0, 4_096, 9_000)))
        if mib:
            pods.append(on_gpu(f"p{i}", i, mib))
    if draw(one_in(4)):
        pods.append(ON_ANY_GPU)
    allocatable = {RESOURCES.share: draw(st.sampled_from((2**20, 2**20, 60_000))), "nvidia.com/gpu": 4}
    return NodeInfo("node", report=Report(tuple(devices)), allocatable=allocatable, pods=tuple(pods))


# A GPU that is no longer whole is worth less, so the second copy goes to the other model.
OF_TWO_MODELS = NodeInfo(
    "node",
    report=Report(
        (*(device(i, Memory(40_960, 0, 0), "A100-40GB") for i in range(3)), device(3, Memory(81_920, 0, 0)))
    ),
    allocatable={RESOURCES.share: 2**20, "nvidia.com/gpu": 4},
)
LIMITED = replace(OF_TWO_MODELS, allocatable={RESOURCES.share: 25_000, "nvidia.com/gpu": 4})
FOR_INIT_CONTAINERS = ShareRequest((), (InitShare("init-0", 1, ()), InitShare("init-1", 8192, ())))
# Of GPUs that cost the same the one goes that comes first by then.
NEARLY_ALIKE = NodeInfo(
    "node",
    report=Report(
        (
            device(0, Memory(100, 10, 30, 0)),
            device(1, Memory(100, 10, 10)),
            device(2, Memory(100, 0, 0, 0)),
            device(3, Memory(80, 10, 20)),
        )
    ),
    pods=(on_gpu("p0", 0, 20), on_gpu("p1", 1, 10)),
)
# A share makes the whole replica on an unknown GPU one on another GPU.
SLICED = NodeInfo(
    "node",
    report=Report(
        (device(0, Memory(80, 10, 30, 0)), device(1, Memory(80, 10, 30))),
        sharing_strategy="time-slicing",
        replicas=2,
    ),
    pods=(on_gpu("p0", 0, 10), ON_ANY_GPU),
)


@examples(25, long=1500)
@example(OF_TWO_MODELS, FOR_INIT_CONTAINERS, "fragmentation", 0, 10)
@example(OF_TWO_MODELS, ShareRequest((("c0", 10_000),)), "fragmentation", 30_000, 10)
@example(LIMITED, ShareRequest((("c0", 10_000),)), "fragmentation", 0, 10)
@example(NEARLY_ALIKE, ShareRequest((("c0", 20), ("c1", 30))), "spread", 0, 0)
@example(SLICED, ShareRequest((("c0", 20),)), "fragmentation", 0, 0)
@given(
    share_nodes(),
    share_asks(),
    st.sampled_from(STRATEGIES),
    st.sampled_from((0, 0, 15_000)),
    st.sampled_from((10, 10, 0)),
)
def test_as_many_shares_as_one_by_one(
    info: NodeInfo, shares: ShareRequest, strategy: str, min_free_mib: int, headroom_percent: int
) -> None:
    request = GpuRequest(shares=shares, min_free_mib=min_free_mib)
    sizing = Sizing(SchedulingPolicy(strategy=strategy), RESOURCES, headroom_percent)
    node = sizing.resolved(info)
    (fill,) = fill_all([Vessel.of(node, _MOST, request, sizing)], request, sizing)
    check_fill(node, request, fill, sizing)


@examples(20, long=500)
@given(clusters(), requests(), st.sampled_from(STRATEGIES), st.sampled_from((0, 10)))
def test_as_many_as_one_by_one(
    infos: tuple[NodeInfo, ...], request: GpuRequest, strategy: str, headroom_percent: int
) -> None:
    sizing = Sizing(SchedulingPolicy(strategy=strategy), RESOURCES, headroom_percent)
    nodes = [sizing.resolved(info) for info in infos]
    fills = fill_all([Vessel.of(node, _MOST, request, sizing) for node in nodes], request, sizing)
    for node, fill in zip(nodes, fills, strict=True):
        check_fill(node, request, fill, sizing)


def test_copies_keep_whole_gpus_for_pods_of_several_as_one_by_one() -> None:
    """A copy's GPU is whole no longer: a pod of two GPUs loses it once."""
    devices = tuple(device(i, Memory(81_920, 0, 0, 0)) for i in range(4))
    allocatable = {RESOURCES.share: 2**20, "nvidia.com/gpu": 4}
    info = NodeInfo("node", report=Report(devices), allocatable=allocatable, pods=(on_gpu("p", 0, 60_000),))
    request = GpuRequest(shares=ShareRequest((("c0", 35_000), ("c1", 10_000))))
    sizing = Sizing(SchedulingPolicy(), RESOURCES, 0)
    within = snapshot_of(
        [info], workload=Workload.of({TaskClass(gpus=2): 3, TaskClass(shares_mib=(4096,)): 1})
    )
    node = sizing.resolved(info)
    (fill,) = fill_all([Vessel.of(node, 4, request, sizing)], request, sizing, within)
    copies = one_by_one(info, request, sizing, 4, within)
    after = replace(info, pods=(*info.pods, *copies))
    assert fill.copies == len(copies)
    states = [sizing.resolved(each).state for each in (filled(node, request, fill, sizing), after)]
    assert [slot.share_free_mib for slot in states[0].slots] == [
        slot.share_free_mib for slot in states[1].slots
    ]
