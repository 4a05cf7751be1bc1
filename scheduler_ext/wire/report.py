"""What a GPUNode reports, checked and as the core knows it.

A report that contradicts itself is refused whole: half of a wrong report is no better than all of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import TypeVar

from scheduler_ext.core.errors import ImpossibleReportError
from scheduler_ext.core.gpu import Device, Holder, Memory, Mig, MigInstance, Report
from scheduler_ext.core.mig import MAX_GRID, Profile, parse_profile
from scheduler_ext.core.mig_geometry import Geometry, geometry_for, geometry_from_report
from scheduler_ext.core.models import GpuModel, canonical_model
from scheduler_ext.wire.gpunode import (
    DeviceStatus,
    GpuNode,
    GpuNodeStatus,
    HealthStatus,
    HolderStatus,
    MemoryStatus,
    MigStatus,
    ProfileStatus,
    SharingStatus,
)
from scheduler_ext.wire.kube import strings

MAX_DEVICES = 64
# On a GPUNode, by an operator: UUIDs with commas between them.
CORDONED_ANNOTATION = "gpu.scheduler-ext.io/cordoned"
_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,95}")
_T = TypeVar("_T")


def read_report(node: GpuNode, previous: Report | None = None) -> Report | None:
    """The report of a GPUNode, or None when it has no status yet.

    ``previous`` is the last good report of the same node. Raises ImpossibleReportError naming node and field.
    """
    status = node.status
    if status is None or (status.devices is None and status.sequence is None):
        return None
    name = (node.metadata.name if node.metadata else None) or "?"
    try:
        _check_sequence(status, previous)
        devices = _devices(status.devices or [], _cordoned(node))
    except _FieldError as error:
        raise ImpossibleReportError(f"GPUNode {name}: {error}; the report is refused") from None
    sharing = status.sharing or SharingStatus()
    return Report(
        devices=devices,
        driver_version=status.driver_version,
        cuda_version=_version(status.cuda_version),
        mig_strategy=status.mig_strategy or _implied_mig_strategy(devices),
        # One replica of each GPU is a GPU that nobody shares.
        sharing_strategy=(sharing.strategy or "none") if sharing.replicas != 1 else "none",
        replicas=sharing.replicas or 1,
        boot_id=status.boot_id,
        sequence=status.sequence,
        reported_at=status.reported_at,
    )


class _FieldError(ValueError):
    """Inside this module only: a field path and what is wrong with it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"status.{path}: {problem}")


def _implied_mig_strategy(devices: tuple[Device, ...]) -> str:
    """A report that does not say: partitioned GPUs can only be used as instances then."""
    return "mixed" if any(device.mig.enabled for device in devices) else "none"


def _check_sequence(status: GpuNodeStatus, previous: Report | None) -> None:
    if previous is None or previous.sequence is None or status.sequence is None:
        return
    if status.boot_id == previous.boot_id and status.sequence < previous.sequence:
        raise _FieldError(
            "sequence",
            f"went back from {previous.sequence} to {status.sequence} within bootID {status.boot_id}",
        )


def _cordoned(node: GpuNode) -> frozenset[str]:
    annotations = strings(node.metadata.annotations) if node.metadata else {}
    return frozenset(part.strip() for part in annotations.get(CORDONED_ANNOTATION, "").split(","))


def _devices(entries: list[DeviceStatus], cordoned: frozenset[str]) -> tuple[Device, ...]:
    if len(entries) > MAX_DEVICES:
        raise _FieldError("devices", f"{len(entries)} devices; a node has at most {MAX_DEVICES}")
    _check_unique("devices[{}].uuid", [device.uuid for device in entries])
    _check_unique("devices[{}].index", [device.index for device in entries])
    return tuple(
        _device(f"devices[{i}]", entry, cordoned=entry.uuid in cordoned) for i, entry in enumerate(entries)
    )


def _check_unique(path: str, values: Iterable[Hashable]) -> None:
    seen: dict[Hashable, int] = {}
    for i, value in enumerate(values):
        if value in seen:
            raise _FieldError(path.format(i), f"{value!r} is that of {path.format(seen[value])} already")
        seen[value] = i


def _check_uuid(path: str, uuid: str) -> None:
    """Pods carry UUIDs in an annotation, with commas between them."""
    if not uuid:
        raise _FieldError(path, "is empty; a device is known by its UUID")
    if not _UUID.fullmatch(uuid):
        raise _FieldError(path, f"{uuid!r} is no UUID; those have letters, digits and . _ : / - only")


def _device(path: str, entry: DeviceStatus, *, cordoned: bool) -> Device:
    _check_uuid(f"{path}.uuid", entry.uuid)
    memory = _memory(f"{path}.memory", entry.memory)
    vendor = (entry.vendor or "nvidia").lower()
    model = canonical_model(
        entry.model or entry.product or "unknown", vendor=vendor, memory_mib=memory.total_mib
    )
    health = entry.health or HealthStatus()
    capability = _version(entry.compute_capability)
    return Device(
        uuid=entry.uuid,
        index=entry.index,
        vendor=vendor,
        product=entry.product or entry.model or "unknown",
        model=model,
        compute_capability=(capability[0], capability[1]) if capability else model.compute_capability,
        memory=memory,
        healthy=health.state != "Unhealthy",
        health_reason=health.reason or "",
        cordoned=cordoned,
        mig=_mig(f"{path}.mig", entry.mig or MigStatus(), model),
        holders=tuple(map(_holder, entry.holders or ())),
    )


def _memory(path: str, entry: MemoryStatus) -> Memory:
    memory = Memory(entry.total_mib, entry.reserved_mib or 0, entry.used_mib or 0, entry.unaccounted_mib)
    taken = memory.used_mib + memory.reserved_mib
    # One per cent, because NVML reads its numbers one after the other.
    if taken * 100 > memory.total_mib * 101:
        raise _FieldError(
            f"{path}.usedMiB",
            f"used {memory.used_mib} + reserved {memory.reserved_mib} MiB exceed {memory.total_mib} in total",
        )
    return memory


def _holder(entry: HolderStatus) -> Holder:
    return Holder(entry.uid or None, entry.namespace, entry.name, entry.container or None, entry.memory_mib)


def _mig(path: str, entry: MigStatus, model: GpuModel) -> Mig:
    geometry = _geometry(path, entry, model)
    grid = entry.grid_size or (geometry.grid if geometry else MAX_GRID)
    instances = []
    occupied: dict[int, int] = {}
    _check_unique(path + ".instances[{}].uuid", [instance.uuid for instance in entry.instances or ()])
    for i, instance in enumerate(entry.instances or ()):
        where = f"{path}.instances[{i}]"
        _check_uuid(f"{where}.uuid", instance.uuid)
        profile = _read(f"{where}.profile", partial(parse_profile, instance.profile))
        size = instance.size or _size_of(profile, geometry)
        if instance.start is not None:
            if instance.size is None:
                raise _FieldError(f"{where}.start", "a start without a size; give both or neither")
            end = instance.start + size
            if end > grid:
                raise _FieldError(where, f"units {instance.start} to {end} leave the grid of {grid}")
            for unit in range(instance.start, end):
                if unit in occupied:
                    raise _FieldError(where, f"overlaps {path}.instances[{occupied[unit]}] at unit {unit}")
                occupied[unit] = i
        holder = _holder(instance.holder) if instance.holder is not None else None
        instances.append(MigInstance(instance.uuid, profile, instance.start, size, holder))
    illegal = _first_illegal(geometry, instances)
    if illegal is not None and _own_placements(entry):
        raise _FieldError(
            f"{path}.instances[{illegal}]", "its size or start is none of its profile's in the same report"
        )
    if illegal is not None:
        # The package's table is not about this device after all.
        geometry = None
    return Mig(bool(entry.enabled), bool(entry.creatable), geometry, tuple(instances))


def _size_of(profile: str, geometry: Geometry | None) -> int:
    """The size of an instance that does not say: its profile's, where that is known."""
    known = geometry.profile(profile) if geometry is not None else None
    return known.size if known is not None else 1


def _first_illegal(geometry: Geometry | None, instances: list[MigInstance]) -> int | None:
    """The first instance that cannot exist under a geometry; profiles it does not know are not judged."""
    for i, instance in enumerate(instances):
        profile = geometry.profile(instance.profile) if geometry is not None else None
        placed = instance.start is None or (profile is not None and instance.start in profile.starts)
        if profile is not None and (instance.size != profile.size or not placed):
            return i
    return None


def _own_placements(entry: MigStatus) -> list[ProfileStatus]:
    """The profiles that say where they can lie; without a grid their starts mean nothing."""
    return [profile for profile in entry.profiles or () if profile.starts] if entry.grid_size else []


def _geometry(path: str, entry: MigStatus, model: GpuModel) -> Geometry | None:
    """The device's own placements; without them the package's table for its model."""
    placed = _own_placements(entry)
    if not entry.grid_size or not placed:
        table = geometry_for(model.mig_table)
        return table if table is None or entry.grid_size in (None, 0, table.grid) else None
    profiles = [
        Profile(p.name, p.size, tuple(p.starts), p.max_instances, p.memory_mib or None) for p in placed
    ]
    grid = entry.grid_size
    return _read(path, lambda: geometry_from_report(grid, profiles))


def _read(path: str, read: Callable[[], _T]) -> _T:
    try:
        return read()
    except ValueError as error:
        raise _FieldError(path, str(error)) from None


def _version(text: str | None) -> tuple[int, ...] | None:
    return tuple(int(part) for part in text.split(".")) if text else None
