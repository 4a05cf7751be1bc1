"""When the new nodes of two nodes are equal: whatever they have been through, never for other hardware."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from scheduler_ext.core.gpu.gpu import Holder, Memory, Mig, MigInstance
from scheduler_ext.core.gpu.mig_geometry import geometry_for
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.as_new import AsNew, as_new, kind_key
from scheduler_ext.core.node.node import NodeInfo, NodeState
from scheduler_ext.core.node.state import resolve
from tests.core.asked import labelled
from tests.core.reported import NAMES, SHARE, WHOLE, bound, device, node, sliced, wants
from tests.strategies import node_infos

BASE = node(
    device(0, mig=sliced(("1g.10gb", 0))),
    device(1),
    allocatable={WHOLE: 1},
    capacity={WHOLE: 1},
    report={"cuda_version": (12, 4), "mig_strategy": "mixed"},
)


def states(info: NodeInfo) -> tuple[NodeState | None, NodeState | None, bool]:
    """What decides about a new node like this one."""
    copy: AsNew = as_new(info, NAMES, 10)
    least, most = (
        resolve(each, NAMES, 10).state if each is not None else None for each in (copy.least, copy.most)
    )
    return least, most, copy.any_model


def reported(**changes: Any) -> NodeInfo:
    """The base with another report."""
    assert BASE.report is not None
    return replace(BASE, report=replace(BASE.report, **changes))


def with_devices(**changes: Any) -> NodeInfo:
    """The base with other GPUs."""
    return reported(devices=tuple(replace(each, **changes) for each in BASE.devices))


def worn(info: NodeInfo) -> NodeInfo:
    """The node after some time: with pods, use and cordoned GPUs."""
    later = replace(
        info, name="other", uid="other", pods=(bound("p", wants(1, WHOLE)),), cpu_elsewhere_milli=500
    )
    if info.report is None:
        return later
    devices = tuple(
        replace(
            each,
            uuid=f"other-{each.uuid}",
            cordoned=True,
            holders=(Holder(uid="p"),),
            memory=replace(each.memory, used_mib=1000, unaccounted_mib=500),
            pci_bus_id="0000:01:00.0",
        )
        for each in info.devices
    )
    report = replace(info.report, devices=devices, sequence=9, boot_id="b", reported_at="now")
    return replace(later, report=report, freshness="Stale")


@given(node_infos())
def test_what_a_node_has_been_through_makes_no_difference(info: NodeInfo) -> None:
    later = worn(info)
    assert kind_key(later) == kind_key(info)
    assert states(later) == states(info)


def test_a_device_plugin_that_withdraws_a_sick_gpu_makes_no_difference() -> None:
    devices = (device(0), device(1), device(2))
    whole = node(*devices, allocatable={WHOLE: 3, SHARE: 0}, capacity={WHOLE: 3, SHARE: 0})
    sick = replace(devices[1], healthy=False, health_reason="XID 79")
    for left in (2, 3):
        later = node(devices[0], sick, devices[2], allocatable={WHOLE: left, SHARE: 0})
        assert states(later) == states(whole)
    fewer = node(*devices, allocatable={WHOLE: 2, SHARE: 0})
    assert states(fewer) != states(whole)


T4 = canonical_model("Tesla T4")
INSTANCE = MigInstance("MIG-9", "2g.20gb", 2, 2)
OTHERS = [
    pytest.param(replace(BASE, allocatable={WHOLE: 2}), id="allocatable"),
    pytest.param(replace(BASE, capacity={WHOLE: 2}), id="capacity"),
    pytest.param(replace(BASE, share_node=True), id="sharing"),
    pytest.param(replace(BASE, spot=True), id="spot"),
    pytest.param(replace(BASE, value=2.0), id="value"),
    pytest.param(replace(BASE, cpu_milli=4000), id="CPU"),
    pytest.param(replace(BASE, changing=True), id="a change of the MIG layout"),
    pytest.param(with_devices(vendor="amd"), id="vendor"),
    pytest.param(with_devices(model=T4), id="model"),
    pytest.param(with_devices(compute_capability=(7, 5)), id="compute capability"),
    pytest.param(with_devices(healthy=False), id="health, where a device plugin withdraws sick GPUs"),
    pytest.param(with_devices(memory=Memory(1000)), id="memory"),
    pytest.param(with_devices(memory=Memory(81920, 700)), id="the reservation of the driver"),
    pytest.param(with_devices(mig=Mig()), id="no MIG"),
    pytest.param(
        with_devices(mig=Mig(True, geometry=geometry_for("A100-80GB"), instances=(INSTANCE,))),
        id="the layout of MIG",
    ),
    pytest.param(reported(cuda_version=None), id="no CUDA version"),
    pytest.param(reported(mig_strategy="single"), id="MIG strategy"),
    pytest.param(reported(sharing_strategy="mps"), id="sharing strategy"),
    pytest.param(reported(replicas=3), id="replicas"),
    pytest.param(replace(BASE, report=None), id="no report"),
    pytest.param(labelled("NVIDIA-L4"), id="labels in place of a report"),
]


@pytest.mark.parametrize("other", OTHERS)
def test_another_kind_has_another_key(other: NodeInfo) -> None:
    assert kind_key(other) != kind_key(BASE)
