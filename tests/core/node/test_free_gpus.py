"""The free GPUs of a node: without any holder, even of a part, on a known GPU or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.core.gpu.gpu import Memory
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.estimate import Estimate
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.state import resolve
from scheduler_ext.core.snapshot.table import build_snapshot
from tests.core.asked import labelled
from tests.core.reported import (
    NAMES,
    ONE_G,
    SHARE,
    SHARED,
    WHOLE,
    bound,
    device,
    free_units,
    node,
    sliced,
    wants,
)

MI300X = device(1, vendor="amd", model=canonical_model("MI300X", vendor="amd"))
FOUR = node(*(device(i) for i in range(4)))
LABELLED = labelled("NVIDIA-A100-SXM4-80GB")
HELD = (bound("p", wants(3, WHOLE)),)
SILENT: dict[str, Any] = {"freshness": "Missing", "by_allocatable": True}
SLICES = Estimate("nvidia", canonical_model("A10"), 2, sharing_strategy="time-slicing", replicas=4)
UNCUT = node(device(0, mig=sliced()), device(1), report={"mig_strategy": "single"})
CUT = node(device(0, mig=sliced(("1g.10gb", 0))), device(1), report={"mig_strategy": "mixed"})


@pytest.mark.parametrize(
    ("info", "free"),
    [
        pytest.param(node(device(0), device(1, healthy=False)), 1, id="but not a sick one"),
        pytest.param(node(device(0, memory=Memory(0))), 1, id="also one of unknown memory"),
        pytest.param(
            node(
                device(0, memory=Memory(0)), pods=(bound("p", wants(1, WHOLE), devices={"main": ("GPU-0",)}),)
            ),
            0,
            id="unless it is held",
        ),
        pytest.param(
            node(
                device(0, mig=sliced()),
                device(1, mig=sliced(("1g.10gb", 0))),
                report={"mig_strategy": "none"},
            ),
            2,
            id="also one in MIG mode under strategy none, which its plugin hands out undivided",
        ),
        pytest.param(
            node(
                device(0, mig=sliced(("1g.10gb", 0))),
                report={"mig_strategy": "none"},
                pods=(bound("p", wants(1, WHOLE), devices={"main": ("GPU-0",)}),),
            ),
            0,
            id="unless a pod has it, whatever instances it has",
        ),
        pytest.param(replace(FOUR, pods=HELD), 1, id="less those that are held, on a known GPU or not"),
        pytest.param(replace(FOUR, freshness="Missing"), 0, id="none of a node whose agent is missing"),
        pytest.param(replace(FOUR, changing=True), 0, id="nor of one whose layout or driver is changed"),
        pytest.param(replace(LABELLED, allocatable={WHOLE: 2}), 2, id="no more than its plugin offers"),
        pytest.param(replace(LABELLED, allocatable={WHOLE: 4}, pods=HELD), 1, id="less requests of these"),
        pytest.param(replace(FOUR, allocatable={WHOLE: 0}), 0, id="none where the plugin has withdrawn all"),
        pytest.param(replace(FOUR, allocatable={WHOLE: 2}), 2, id="nor those that it offers no more"),
        pytest.param(
            node(device(0), MI300X, allocatable={WHOLE: 1, "amd.com/gpu": 1}), 2, id="of all vendors together"
        ),
        pytest.param(replace(FOUR, allocatable={SHARE: 9}, share_node=True), 4, id="but all for shares"),
        pytest.param(
            replace(FOUR, allocatable={SHARE: 1}, share_node=True, **SILENT),
            0,
            id="none of a silent node for shares, which takes none",
        ),
        pytest.param(
            replace(CUT, allocatable={WHOLE: 0, ONE_G: 1}, **SILENT),
            1,
            id="but a partitioned one, which is handed out in instances",
        ),
        pytest.param(
            replace(CUT, allocatable={WHOLE: 0, ONE_G: 0}),
            0,
            id="unless its plugin offers no instance, either",
        ),
        pytest.param(
            node(*CUT.devices, report={"mig_strategy": "single"}, allocatable={WHOLE: 0}),
            0,
            id="none of a node where strategy single hands out nothing",
        ),
        pytest.param(
            replace(UNCUT, allocatable={SHARE: 9}, share_node=True),
            1,
            id="but the whole ones for shares, which need no device plugin",
        ),
        pytest.param(
            NodeInfo("n", estimate=SLICES, allocatable={SHARED: 5}),
            1,
            id="of time slices the whole GPUs that are left",
        ),
    ],
)
def test_free_gpus(info: NodeInfo, free: int) -> None:
    assert resolve(info, NAMES, 10).free_gpus == free


def test_gpus_that_are_not_offered_are_no_room_for_future_pods() -> None:
    info = node(*(device(i) for i in range(8)), allocatable={WHOLE: 6})
    snapshot = build_snapshot({"n": resolve(info, NAMES, 10)}, 1)
    assert snapshot.demand.idle[1] == snapshot.demand.whole[1] == 6


def test_a_node_names_each_of_its_models_once() -> None:
    assert resolve(FOUR, NAMES, 10).models == ("A100-80GB",)
    assert resolve(NodeInfo("n", allocatable={}), NAMES, 10).models == ()


def test_the_device_of_a_share_is_not_that_of_a_whole_gpu_beside_it() -> None:
    asks = wants(1, WHOLE, "trainer"), wants(1000, SHARE, "viewer")
    info = node(device(0), device(1), pods=(bound("both", *asks, devices={"viewer": ("GPU-1",)}),))
    assert free_units(info) == {"GPU-0": {WHOLE: 1}, "GPU-1": {WHOLE: 0}}
    assert [(name, unknown) for name, unknown, _ in resolve(info, NAMES, 10).state.limits] == [(WHOLE, 1)]


@pytest.mark.parametrize(
    "allocatable",
    [
        pytest.param(None, id="the node takes shares, too"),
        pytest.param({WHOLE: 8}, id="the node takes whole pods only"),
        pytest.param({WHOLE: 8, SHARE: 8 * 73_728}, id="the node advertises shares"),
    ],
)
def test_each_gpu_held_on_an_unknown_device_counts_once(allocatable: dict[str, int] | None) -> None:
    devices = (device(i) for i in range(8))
    info = node(*devices, pods=(bound("train", wants(3, WHOLE)),), allocatable=allocatable)
    snapshot = build_snapshot({"n": resolve(info, NAMES, 10)}, 1)
    assert snapshot.idle_part == pytest.approx(5 / 8)
    assert snapshot.demand.idle[1] == snapshot.demand.whole[1] == 5
