"""Most pods on plugin nodes hold unreported GPUs; they count all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.policy import Policy
from scheduler_ext.core.node.estimate import estimate_from_labels
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.state import resolve
from scheduler_ext.core.request.request import GpuRequest, ShareAsk
from scheduler_ext.core.snapshot.table import build_snapshot
from tests.core.reported import NAMES, SHARE, WHOLE, bound, device, node, wants

REPORTED = node(*(device(i) for i in range(8)))
ESTIMATED = NodeInfo(
    "n",
    estimate=estimate_from_labels(
        {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "8"}, {}
    ),
    allocatable={WHOLE: 8},
)


@pytest.mark.parametrize(
    ("held", "shares", "fits"),
    [
        pytest.param(1, (70_000,), True, id="one GPU is left, whichever it is"),
        pytest.param(1, (70_000, 70_000), False, id="two shares need a GPU that may be held"),
    ],
)
def test_whole_gpus_on_unknown_devices_are_no_room_for_shares(
    held: int, shares: tuple[int, ...], fits: bool
) -> None:
    pods = (bound("whole", wants(held, WHOLE)),) if held else ()
    two = resolve(node(device(0), device(1), pods=pods), NAMES, 10)
    asked = GpuRequest(shares=ShareAsk(tuple((f"c{i}", mib) for i, mib in enumerate(shares))))
    snapshot = build_snapshot({"n": two}, 1)
    assert bool(filter_nodes(asked, snapshot, Policy()).fits[snapshot.state_of[0]]) is fits


def test_the_device_of_a_share_is_not_that_of_a_whole_gpu_beside_it() -> None:
    both = bound("both", wants(1, WHOLE, "trainer"), wants(1000, SHARE, "viewer"))
    pod = replace(both, devices={"viewer": ("GPU-1",)})
    found = resolve(node(device(0), device(1), device(2), pods=(pod,)), NAMES, 10)
    assert dict(zip(found.uuids, (slot.units[0].free for slot in found.state.slots), strict=True)) == {
        "GPU-0": 1,
        "GPU-1": 0,
        "GPU-2": 1,
    }
    assert [(name, unknown) for name, unknown, _ in found.state.limits if name == WHOLE] == [(WHOLE, 1)]


@pytest.mark.parametrize(
    "allocatable",
    [
        pytest.param(None, id="the node takes shares, too"),
        pytest.param({WHOLE: 8}, id="the node takes whole pods only"),
        pytest.param({WHOLE: 8, SHARE: 8 * 73_728}, id="the node advertises shares"),
    ],
)
@pytest.mark.parametrize("held", [0, 3])
def test_each_gpu_held_on_an_unknown_device_counts_once(
    allocatable: dict[str, int] | None, held: int
) -> None:
    pods = (bound("train", wants(held, WHOLE)),) if held else ()
    info = replace(REPORTED, pods=pods, allocatable=allocatable)
    snapshot = build_snapshot({"n": resolve(info, NAMES, 10)}, 1)
    assert snapshot.idle_part == pytest.approx((8 - held) / 8)
    assert snapshot.demand.idle[1] == snapshot.demand.whole[1] == 8 - held
