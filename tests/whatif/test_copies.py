"""The copies of a pod that a node takes: as many as placing one after the other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from scheduler_ext.core.cycle.placement import Placement, Sizing, place
from scheduler_ext.core.cycle.policy import Policy
from scheduler_ext.core.gpu.gpu import Device, Memory, Report
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo
from scheduler_ext.core.node.promisable import overallocated
from scheduler_ext.core.request.request import GpuRequest, InitShare, ShareAsk, UnitAsk
from scheduler_ext.whatif.copies import Fill, Vessel, fill_all, filled
from tests.examples import examples
from tests.gpu_strategies import STRATEGIES, one_in
from tests.strategies import RESOURCES, clusters, requests, share_asks

# More than most of the random nodes hold; a copy at a time takes long.
_MOST = 12


def copy_of(request: GpuRequest, found: Placement, number: int) -> BoundPod:
    """The placed copy."""
    name = f"copy-{number}"
    holding = GpuRequest(request.units, request.shares, by_container=request.by_container)
    return BoundPod(name, "default", name, request.priority, holding, devices=found.devices)


def one_by_one(info: NodeInfo, request: GpuRequest, sizing: Sizing, most: int) -> list[BoundPod]:
    """The copies, each placed by the core beside those before it; any number is allowed."""
    copies: list[BoundPod] = []
    while len(copies) < most:
        there = replace(info, pods=(*info.pods, *copies))
        found = place(there, request, sizing)
        if isinstance(found, str):
            break
        copies.append(copy_of(request, found, len(copies)))
        assert overallocated(there, copies[-1], RESOURCES) is None
    return copies


def check(info: NodeInfo, request: GpuRequest, sizing: Sizing) -> None:
    """The node by itself."""
    node = sizing.resolved(info)
    (fill,) = fill_all([Vessel.of(node, _MOST, request, sizing)], request, sizing)
    check_fill(node, request, fill, sizing)


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


def a100(index: int, memory: Memory) -> Device:
    model = canonical_model("A100-80GB", vendor="nvidia")
    return Device(f"GPU-{index}", index, "nvidia", model.name, model, (8, 0), memory)


def on_gpu(name: str, index: int, mib: int) -> BoundPod:
    holding = GpuRequest(shares=ShareAsk((("main", mib),)))
    return BoundPod(name, "default", name, 0, holding, {"main": (f"GPU-{index}",)})


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
        known = canonical_model(model, vendor="nvidia")
        devices.append(Device(f"GPU-{i}", i, "nvidia", model, known, (8, 0), memory))
    pods = []
    for i in range(len(devices)):
        mib = draw(st.sampled_from((0, 0, 4_096, 9_000)))
        if mib:
            pods.append(on_gpu(f"p{i}", i, mib))
    if draw(one_in(4)):
        pods.append(BoundPod("whole", "default", "whole", 0, GpuRequest((UnitAsk("nvidia.com/gpu", 1),))))
    allocatable = {RESOURCES.share: draw(st.sampled_from((2**20, 2**20, 60_000))), "nvidia.com/gpu": 4}
    return NodeInfo("node", report=Report(tuple(devices)), allocatable=allocatable, pods=tuple(pods))


@examples(25, long=1500)
@given(share_nodes(), share_asks(), st.sampled_from(STRATEGIES), st.sampled_from((0, 0, 15_000)))
def test_as_many_shares_as_one_by_one(
    info: NodeInfo, shares: ShareAsk, strategy: str, min_free_mib: int
) -> None:
    request = GpuRequest(shares=shares, min_free_mib=min_free_mib)
    check(info, request, Sizing(Policy(strategy=strategy), RESOURCES, 10))


def test_each_copy_is_packed_by_what_those_before_it_left() -> None:
    """The second goes to the other GPU: a GPU that is no longer whole is worth less."""
    names = ("A100-40GB", "A100-40GB", "A100-40GB", "A100-80GB")
    models = [canonical_model(name, vendor="nvidia") for name in names]
    devices = tuple(
        Device(f"GPU-{i}", i, "nvidia", model.name, model, (8, 0), Memory(model.memory_mib or 0, 0, 0))
        for i, model in enumerate(models)
    )
    room = {"gpu.scheduler-ext.io/memory-mib": 2**20, "nvidia.com/gpu": 4}
    info = NodeInfo("node", report=Report(devices), allocatable=room)
    shares = ShareAsk((), (InitShare("init-0", 1, ()), InitShare("init-1", 8192, ())))
    check(info, GpuRequest(shares=shares), Sizing(Policy(), RESOURCES, 10))


@pytest.mark.parametrize(
    ("memories", "held", "shares", "strategy", "replicas", "copies"),
    [
        pytest.param(
            [Memory(100, 10, 30, 0), Memory(100, 10, 10), Memory(100, 0, 0, 0), Memory(80, 10, 20)],
            {0: 20, 1: 10},
            (20, 30),
            "spread",
            1,
            5,
            id="of GPUs that cost the same the one that comes first by then",
        ),
        pytest.param(
            [Memory(80, 10, 30, 0), Memory(80, 10, 30)],
            {0: 10},
            (20,),
            None,
            2,
            4,
            id="a whole replica on an unknown GPU, which a share makes another one",
        ),
    ],
)
def test_as_many_where_gpus_are_nearly_alike(
    memories: list[Memory],
    held: dict[int, int],
    shares: tuple[int, ...],
    strategy: str | None,
    replicas: int,
    copies: int,
) -> None:
    sharing = "time-slicing" if replicas > 1 else "none"
    report = Report(
        tuple(a100(i, memory) for i, memory in enumerate(memories)),
        sharing_strategy=sharing,
        replicas=replicas,
    )
    pods = [on_gpu(f"p{i}", i, mib) for i, mib in held.items()]
    if replicas > 1:
        pods.append(BoundPod("whole", "default", "whole", 0, GpuRequest((UnitAsk("nvidia.com/gpu", 1),))))
    running = tuple((f"c{i}", mib) for i, mib in enumerate(shares))
    request = GpuRequest(shares=ShareAsk(running), strategy=strategy)
    sizing = Sizing(Policy(), RESOURCES, 0)
    info = NodeInfo("node", report=report, pods=tuple(pods))
    assert len(one_by_one(info, request, sizing, _MOST)) == copies
    check(info, request, sizing)


@examples(20, long=500)
@given(clusters(), requests(), st.sampled_from(STRATEGIES), st.sampled_from((0, 10)))
def test_as_many_as_one_by_one(
    infos: tuple[NodeInfo, ...], request: GpuRequest, strategy: str, headroom_percent: int
) -> None:
    sizing = Sizing(Policy(strategy=strategy), RESOURCES, headroom_percent)
    nodes = [sizing.resolved(info) for info in infos]
    fills = fill_all([Vessel.of(node, _MOST, request, sizing) for node in nodes], request, sizing)
    for node, fill in zip(nodes, fills, strict=True):
        check_fill(node, request, fill, sizing)
