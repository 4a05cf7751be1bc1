"""From reports and holdings to the decision's view: units, memory, caps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.core.gpu.gpu import Holder, Memory
from scheduler_ext.core.node.estimate import estimate_from_labels
from scheduler_ext.core.node.node import UNLIMITED, Node, NodeInfo
from scheduler_ext.core.node.state import resolve
from tests.core.reported import NAMES, SHARE, SHARED, WHOLE, bound, device, node, slots, wants


def resolved(info: NodeInfo, headroom_percent: int = 10) -> Node:
    return resolve(info, NAMES, headroom_percent)


def test_headroom_is_for_shares_alone() -> None:
    slot = slots(node(device(0, memory=Memory(81559, 490, 1000))))["GPU-0"]
    assert slot.share_free_mib == 81559 - 490 - 1000 - 8156
    assert slot.share_total_mib == 81559 - 490 - 8156
    assert slot.units[0].free_mib == 81559 - 490 - 1000
    assert slot.units[0].memory_mib == slot.total_mib == 81559


def test_a_held_gpu_takes_no_share_and_one_with_a_share_more() -> None:
    held = node(device(0, holders=(Holder(uid="uid-a"),)), pods=(bound("a", wants(1, WHOLE)),))
    assert slots(held)["GPU-0"].share_free_mib == -1
    shared = node(device(0), pods=(bound("a", wants(100, SHARE), devices={"main": ("GPU-0",)}),))
    assert slots(shared)["GPU-0"].share_free_mib == 81920 - 100 - 8192


@pytest.mark.parametrize(
    ("memory", "holders"),
    [
        pytest.param(Memory(81920, used_mib=500), (Holder(uid="stranger", memory_mib=500),), id="a stranger"),
        pytest.param(Memory(81920, used_mib=500, unaccounted_mib=500), (), id="no pod"),
    ],
)
def test_a_gpu_that_others_use_is_free_with_less_memory(memory: Memory, holders: tuple[Holder, ...]) -> None:
    """A monitor with a context on every GPU must not empty a cluster; a pod that needs the memory requests
    it.
    """
    (unit,) = slots(node(device(0, memory=memory, holders=holders)))["GPU-0"].units
    assert (unit.free, unit.free_mib) == (1, 81920 - 500)


def test_one_vendors_names_are_one_pool() -> None:
    info = node(
        device(0),
        device(1),
        pods=(bound("a", wants(1, SHARED)), bound("b", wants(1, WHOLE))),
        report={"sharing_strategy": "time-slicing", "replicas": 2},
    )
    assert {name: unknown for name, unknown, _ in resolved(info).state.limits} == {WHOLE: 2, SHARED: 2}


def test_sick_devices_keep_their_numbers_but_are_marked() -> None:
    found = slots(node(device(0), device(1, healthy=False, health_reason="XID 79")))
    assert (found["GPU-0"].healthy, found["GPU-1"].healthy) == (True, False)
    assert found["GPU-1"].units[0].free == 1


class TestAllocatable:
    def capped(self, allocatable: dict[str, int] | None, *pods: Any) -> dict[str, int]:
        info = node(device(0), device(1), pods=pods, allocatable=allocatable)
        return {name: limit for name, _, limit in resolved(info).state.limits}

    def test_the_cap_is_what_no_pod_asks_and_never_below_zero(self) -> None:
        assert self.capped(None) == {WHOLE: UNLIMITED}
        assert self.capped({WHOLE: 2}, bound("a", wants(1, WHOLE))) == {WHOLE: 1}
        assert self.capped({WHOLE: 1}, bound("a", wants(3, WHOLE))) == {WHOLE: 0}
        assert self.capped({}) == {WHOLE: 0}

    def test_shares_have_a_cap_of_their_own(self) -> None:
        pod = bound("a", wants(500, SHARE), devices={"main": ("GPU-0",)})
        for allocatable, limit in ((None, UNLIMITED), ({}, 0), ({SHARE: 70000}, 69500)):
            info = node(device(0), pods=(pod,), allocatable=allocatable)
            assert resolved(info).state.share_limit == limit

    @pytest.mark.parametrize("allocatable", [None, {SHARE: 70000}])
    def test_a_share_that_no_annotation_places_closes_its_node(
        self, allocatable: dict[str, int] | None
    ) -> None:
        pod = bound("a", wants(500, SHARE))
        info = node(device(0), device(1), pods=(pod,), allocatable=allocatable)
        assert resolved(info).state.share_limit == 0
        assert resolved(replace(info, pods=(replace(pod, finished=True),))).state.share_limit > 0


LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8"}


class TestEstimates:
    def estimated(self, labels: dict[str, str], **fields: Any) -> NodeInfo:
        return NodeInfo("n", estimate=estimate_from_labels(LABELS | labels, {}), **fields)

    def test_one_slot_stands_for_all_devices_and_takes_no_share(self) -> None:
        found = resolved(self.estimated({}))
        (slot,) = found.state.slots
        assert [(unit.resource, unit.free, unit.memory_mib) for unit in slot.units] == [(WHOLE, 8, 81559)]
        assert (slot.model.name, slot.share_free_mib, slot.total_mib) == ("H100-80GB", -1, 81559)
        assert found.uuids == (None,)
        assert found.state.estimated
        assert found.state.fresh

    def test_pods_of_an_estimated_node_count_without_devices_and_under_the_cap(self) -> None:
        info = self.estimated({}, allocatable={WHOLE: 8}, pods=(bound("a", wants(3, WHOLE)),))
        assert resolved(info).state.limits == ((WHOLE, 3, 5),)

    def test_mps_replicas_have_a_part_of_the_memory(self) -> None:
        labels = {"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "4"}
        found = resolved(self.estimated(labels))
        assert found.state.slots[0].units[0].free == 32
        assert found.state.slots[0].units[0].memory_mib == 81559 // 4
        assert found.state.shared


@pytest.mark.parametrize(
    ("info", "fresh"),
    [
        pytest.param(node(device(0)), True, id="reported"),
        pytest.param(node(device(0), freshness="Stale"), False, id="reported too long ago"),
        pytest.param(NodeInfo("n", allocatable={}), True, id="a Node that speaks of no GPU"),
        pytest.param(NodeInfo("n"), False, id="neither a report nor a Node"),
        pytest.param(NodeInfo("n", freshness="Missing"), False, id="missing"),
    ],
)
def test_fresh_nodes_are_those_something_recent_is_known_of(info: NodeInfo, fresh: bool) -> None:
    assert resolved(info).state.fresh is fresh


def test_the_cuda_version_is_that_of_the_report() -> None:
    info = node(device(0), report={"cuda_version": (12, 4)})
    assert resolved(info).state.cuda == 12_004_000
    assert resolved(node(device(0))).state.cuda == 0
