"""A cordoned GPU keeps its pods and takes no new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import event, given

from scheduler_ext.core.cycle.cycle import FITS, filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.gpu.gpu import Device, Holder, Memory
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.request.request import GpuRequest
from tests.core.asked import HELD, whole
from tests.core.reported import SHARE, bound, device, node, sliced, slots, wants
from tests.free_memory import clusters_with_closed_parts
from tests.strategies import several_requests, snapshot_of

MIXED = {"mig_strategy": "mixed"}
TIME_SLICED = {"sharing_strategy": "time-slicing", "replicas": 4}
USER = Holder(namespace="ns", name="stranger", memory_mib=500)


def closed(index: int, **fields: object) -> Device:
    return device(index, cordoned=True, **fields)


def fits(info: NodeInfo, request: GpuRequest) -> bool:
    snapshot = snapshot_of([info])
    return bool(filter_nodes(request, snapshot, SchedulingPolicy()).verdict[snapshot.state_of[0]] == FITS)


@pytest.mark.parametrize(
    ("info", "request_", "expected"),
    [
        pytest.param(
            node(closed(0, holders=HELD), device(1)), whole(), True, id="a held one is in no danger"
        ),
        pytest.param(
            node(closed(0, holders=(USER,)), device(1)), whole(), False, id="kubelet knows no stranger on it"
        ),
        pytest.param(
            node(closed(0, holders=HELD), device(1), report=TIME_SLICED),
            whole(),
            False,
            id="one replica of four held leaves three",
        ),
        pytest.param(
            node(closed(0, mig=sliced(("1g.10gb", 0))), device(1), report=MIXED),
            whole(),
            True,
            id="a partitioned one is no whole GPU under mixed",
        ),
    ],
)
def test_pods_that_still_fit_beside_a_cordon(info: NodeInfo, request_: GpuRequest, expected: bool) -> None:
    assert fits(info, request_) is expected


def test_a_cordoned_gpu_keeps_its_holdings() -> None:
    pods = (bound("p", wants(1000, SHARE), devices={"main": ("GPU-0",)}),)
    found = slots(node(closed(0, memory=Memory(81920, used_mib=900)), device(1), pods=pods))
    assert found["GPU-0"].share_free_mib == -1
    assert found["GPU-0"].idle == slots(node(device(0), pods=pods))["GPU-0"].idle
    assert found["GPU-1"].share_free_mib == 81920 - 8192


def free_where_cordoned(node: Node) -> set[str]:
    """The resources with a free unit on a cordoned, healthy GPU."""
    assert node.info.report is not None
    cordoned = {one.uuid for one in node.info.report.devices if one.cordoned and one.healthy}
    return {
        unit.resource
        for uuid, slot in zip(node.uuids, node.state.slots, strict=True)
        if uuid in cordoned
        for unit in slot.units
        if unit.free
    }


@given(clusters_with_closed_parts(), several_requests)
def test_a_cordoned_gpu_takes_no_new_pod(cluster: Sequence[NodeInfo], asked: list[GpuRequest]) -> None:
    snapshot = snapshot_of(cluster)
    reported = [one for one in snapshot.nodes.values() if one.info.report is not None]
    for one in reported:
        assert one.info.report is not None
        cordoned = {device.uuid for device in one.info.report.devices if device.cordoned}
        for uuid, slot in zip(one.uuids, one.state.slots, strict=True):
            # No share is placed where no room is.
            assert uuid not in cordoned or slot.share_free_mib == -1
    for request in asked:
        verdict = filter_nodes(request, snapshot, SchedulingPolicy()).verdict
        for one in reported:
            dangerous = {ask.resource for ask in request.units} & free_where_cordoned(one)
            event(f"in danger: {bool(dangerous)}")
            if dangerous:
                assert verdict[snapshot.state_of[snapshot.row_of[one.info.name]]] != FITS


@given(clusters_with_closed_parts(), several_requests)
def test_a_cordon_only_ever_takes_away(cluster: Sequence[NodeInfo], asked: list[GpuRequest]) -> None:
    def opened(info: NodeInfo) -> NodeInfo:
        if info.report is None:
            return info
        devices = tuple(replace(one, cordoned=False) for one in info.report.devices)
        return replace(info, report=replace(info.report, devices=devices))

    before, after = snapshot_of([opened(info) for info in cluster]), snapshot_of(cluster)
    for request in asked:
        fits_opened, fits_closed = (
            filter_nodes(request, each, SchedulingPolicy()).fits for each in (before, after)
        )
        for info in cluster:
            if fits_closed[after.state_at(info.name)]:
                assert fits_opened[before.state_at(info.name)]
