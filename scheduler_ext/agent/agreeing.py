"""Consistency of one report: the extender refuses a report that contradicts itself, so contradictions are
left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from scheduler_ext.core.errors import ImpossibleReportError
from scheduler_ext.wire.gpunode import DeviceStatus, GpuNode, GpuNodeStatus, HolderStatus, MemoryStatus
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
        if problem is not None:
            left_out.append(f"GPU {device.index} contradicts itself, and is reported in part only: {problem}")
        for less in _ever_less(device):
            if _problem([*found, less]) is None:
                found.append(less)
                break
    return found, tuple(left_out)


def _ever_less(device: DeviceStatus) -> Iterator[DeviceStatus]:
    yield device
    most = device.memory.total_mib
    less = device.but(holders=[_at_most(holder, most) for holder in device.holders or ()] or None)
    if mig := device.mig:
        instances = [each.but(holder=_at_most(each.holder, most)) for each in mig.instances or ()]
        yield less.but(mig=mig.but(instances=instances or None))
        yield less.but(mig=mig.but(instances=None))
        less = less.but(mig=None)
    yield less
    holders = [_at_most(holder, 0) for holder in less.holders or ()]
    yield less.but(memory=MemoryStatus(total_mib=0), holders=holders or None)


def _at_most(holder: HolderStatus | None, mib: int) -> HolderStatus | None:
    """The holder stays, whatever amount was read for it."""
    if holder is None or holder.memory_mib is None or holder.memory_mib <= mib:
        return holder
    return holder.but(memory_mib=mib)


def _problem(devices: Sequence[DeviceStatus]) -> str | None:
    try:
        read_report(GpuNode(status=GpuNodeStatus(devices=list(devices))))
    except ImpossibleReportError as error:
        return str(error)
    return None
