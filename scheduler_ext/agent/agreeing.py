"""Consistency of one report: the extender refuses a report that contradicts itself, so contradictions are
left out.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence

from scheduler_ext.core.errors import ImpossibleReportError
from scheduler_ext.wire.gpunode import (
    DeviceStatus,
    GpuNode,
    GpuNodeStatus,
    HolderStatus,
    InstanceStatus,
    MemoryStatus,
)
from scheduler_ext.wire.report import read_report


def agreeing(devices: Iterable[DeviceStatus]) -> tuple[list[DeviceStatus], tuple[str, ...]]:
    """The devices in a form that the extender accepts, and a message for each part that had to be left out.

    A device that contradicts itself, or a device before it, loses parts in this order, as far as needed: its
    holders' memory beyond the total, its MIG instances, its memory, and finally the whole device.
    """
    kept = list(devices)
    if _problem(kept) is None:
        return kept, ()
    found: list[DeviceStatus] = []
    left_out = []
    for device in kept:
        problem = _problem([*found, device])
        for less in _ever_less(device) if problem is not None else (device,):
            if _problem([*found, less]) is None:
                found.append(less)
                break
        if problem is not None:
            left_out.append(f"GPU {device.index} contradicts itself, and is told in part only: {problem}")
    return found, tuple(left_out)


def _ever_less(device: DeviceStatus) -> Iterator[DeviceStatus]:
    less = copy.copy(device)
    most = less.memory.total_mib
    less.holders = [_holding_at_most(holder, most) for holder in less.holders or ()] or None
    if less.mig is not None:
        less.mig = copy.copy(less.mig)
        less.mig.instances = [_on_at_most(one, most) for one in less.mig.instances or ()] or None
    yield less
    if less.mig is not None:
        less = copy.copy(less)
        less.mig = copy.copy(less.mig)
        assert less.mig is not None
        less.mig.instances = None
        yield less
        less = copy.copy(less)
        less.mig = None
        yield less
    less = copy.copy(less)
    less.memory = MemoryStatus(total_mib=0)
    less.holders = [_holding_at_most(holder, 0) for holder in less.holders or ()] or None
    yield less


def _holding_at_most(holder: HolderStatus, mib: int) -> HolderStatus:
    """The holder stays, whatever amount was read for it."""
    if holder.memory_mib is None or holder.memory_mib <= mib:
        return holder
    less = copy.copy(holder)
    less.memory_mib = mib
    return less


def _on_at_most(instance: InstanceStatus, mib: int) -> InstanceStatus:
    if instance.holder is None:
        return instance
    less = copy.copy(instance)
    less.holder = _holding_at_most(instance.holder, mib)
    return less


def _problem(devices: Sequence[DeviceStatus]) -> str | None:
    try:
        read_report(GpuNode(status=GpuNodeStatus(devices=list(devices))))
    except ImpossibleReportError as error:
        return str(error)
    return None
