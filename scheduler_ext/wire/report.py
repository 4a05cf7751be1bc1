"""The content of a GPUNode, checked and as core values. A report that contradicts itself is refused whole,
because half of a wrong report is no better."""

import re
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace

from scheduler_ext.core.errors import ImpossibleReportError
from scheduler_ext.core.gpu.gpu import Device, Holder, Memory, Mig, MigInstance, Report
from scheduler_ext.core.gpu.mig_geometry import Geometry, geometry_for, geometry_from_report
from scheduler_ext.core.gpu.mig_profile import MAX_GRID, Profile, parse_profile
from scheduler_ext.core.gpu.models import GpuModel, canonical_model, is_display
from scheduler_ext.wire import gpunode
from scheduler_ext.wire.kube import listed, strings

MAX_DEVICES = 64
CORDONED_ANNOTATION = "gpu.scheduler-ext.io/cordoned"
"""Comma-separated GPU UUIDs, set by an operator: these GPUs take nothing new
(docs/reference/gpunode.md#cordoning-a-gpu). A UUID that no GPU of the node has is reported by an Event
`GPUCordonUnknown` on the Node and by `scheduler-ext inventory`."""
_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,95}")


class FieldError(ValueError):
    """An error in a report: a field path and its problem."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"status.{path}: {problem}")


def read_report(node: gpunode.GpuNode, previous: Report | None = None) -> Report | None:
    """The report of a GPUNode, or None if it has no status yet. `previous` is the last good report of the
    same node. Raises ImpossibleReportError naming node and field."""
    status = node.status
    if status is None or (status.devices is None and status.sequence is None):
        return None
    metadata = node.metadata or gpunode.GpuNodeMeta()
    cordoned = frozenset(listed(strings(metadata.annotations).get(CORDONED_ANNOTATION, "")))
    try:
        same_boot = previous is not None and status.boot_id == previous.boot_id
        before = previous.sequence if previous is not None and same_boot else None
        if before is not None and status.sequence is not None and status.sequence < before:
            problem = f"went back from {before} to {status.sequence} within bootID {status.boot_id}"
            raise FieldError("sequence", problem)
        devices = _devices(status.devices or [], cordoned)
    except FieldError as error:
        name = metadata.name or "?"
        raise ImpossibleReportError(f"GPUNode {name}: {error}; the report is refused") from None
    partitioned = any(device.mig.enabled for device in devices)
    sharing = status.sharing or gpunode.SharingStatus()
    return Report(
        devices=devices,
        driver_version=status.driver_version,
        cuda_version=_version(status.cuda_version),
        # Without a strategy, partitioned GPUs can only be used as instances.
        mig_strategy=status.mig_strategy or ("mixed" if partitioned else "none"),
        # One replica of each GPU means that the GPUs are not shared.
        sharing_strategy=(sharing.strategy or "none") if sharing.replicas != 1 else "none",
        replicas=sharing.replicas or 1,
        boot_id=status.boot_id,
        sequence=status.sequence,
        reported_at=status.reported_at,
        cordoned_strangers=tuple(sorted(cordoned - {device.uuid for device in devices})),
    )


def _devices(entries: list[gpunode.DeviceStatus], cordoned: frozenset[str]) -> tuple[Device, ...]:
    if len(entries) > MAX_DEVICES:
        raise FieldError("devices", f"{len(entries)} devices; a node has at most {MAX_DEVICES}")
    _check_unique(_uuids(entries))
    _check_unique((f"devices[{i}].index", device.index) for i, device in enumerate(entries))
    return tuple(
        _device(f"devices[{i}]", entry, cordoned=entry.uuid in cordoned)
        for i, entry in enumerate(entries)
        if not is_display(entry.product or entry.model or "")
    )


def _check_unique(values: Iterable[tuple[str, Hashable]]) -> None:
    """Raises FieldError for a value that occurs at a second path."""
    seen: dict[Hashable, str] = {}
    for path, value in values:
        if value in seen:
            raise FieldError(path, f"{value!r} is that of {seen[value]} already")
        seen[value] = path


def _uuids(entries: list[gpunode.DeviceStatus]) -> Iterator[tuple[str, str]]:
    """The UUIDs of GPUs, then of their instances: no two on a node are equal."""
    for i, device in enumerate(entries):
        yield f"devices[{i}].uuid", device.uuid
    for i, device in enumerate(entries):
        for j, instance in enumerate((device.mig.instances if device.mig else None) or ()):
            yield f"devices[{i}].mig.instances[{j}].uuid", instance.uuid


def _device(path: str, entry: gpunode.DeviceStatus, *, cordoned: bool) -> Device:
    _check_uuid(f"{path}.uuid", entry.uuid)
    memory = _memory(f"{path}.memory", entry.memory)
    vendor, name = (entry.vendor or "nvidia").lower(), entry.model or entry.product or "unknown"
    model = canonical_model(name, vendor=vendor, memory_mib=memory.total_mib or None)
    if not memory.total_mib and model.memory_mib:
        memory = replace(memory, total_mib=model.memory_mib, stated=True)
    health = entry.health or gpunode.HealthStatus()
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
        mig=_read_mig(f"{path}.mig", entry.mig or gpunode.MigStatus(), model, entry.memory.total_mib),
        holders=tuple(
            _read_holder(f"{path}.holders[{i}]", holder, entry.memory.total_mib)
            for i, holder in enumerate(entry.holders or ())
        ),
        pci_bus_id=entry.pci_bus_id.lower() if entry.pci_bus_id else None,
        numa_node=entry.numa_node,
    )


def _memory(path: str, entry: gpunode.MemoryStatus) -> Memory:
    memory = Memory(entry.total_mib, entry.reserved_mib or 0, entry.used_mib or 0, entry.unaccounted_mib)
    taken = memory.used_mib + memory.reserved_mib
    # One per cent, because NVML reads its numbers one after the other.
    if taken * 100 > memory.total_mib * 101:
        raise FieldError(
            f"{path}.usedMiB",
            f"used {memory.used_mib} + reserved {memory.reserved_mib} MiB exceed {memory.total_mib} in total",
        )
    if memory.unaccounted_mib is not None and memory.unaccounted_mib > memory.used_mib:
        raise FieldError(
            f"{path}.unaccountedMiB", f"{memory.unaccounted_mib} of {memory.used_mib} MiB that are used"
        )
    return memory


def _version(text: str | None) -> tuple[int, ...] | None:
    return tuple(int(part) for part in text.split(".")) if text else None


def _check_uuid(path: str, uuid: str) -> None:
    """Raises FieldError for text that is no UUID: pods carry UUIDs in an annotation, separated by commas."""
    if not uuid:
        raise FieldError(path, "is empty; a device is known by its UUID")
    if not _UUID.fullmatch(uuid):
        raise FieldError(path, f"{uuid!r} is no UUID; those have letters, digits and . _ : / - only")


def _read_holder(path: str, entry: gpunode.HolderStatus, total_mib: int) -> Holder:
    """The holder of a device, or of an instance on one, of this much memory (0: unknown). Raises
    FieldError."""
    if total_mib and entry.memory_mib is not None and entry.memory_mib > total_mib:
        raise FieldError(f"{path}.memoryMiB", f"{entry.memory_mib} MiB of a device of {total_mib}")
    return Holder(entry.uid or None, entry.namespace, entry.name, entry.container or None, entry.memory_mib)


def _read_mig(path: str, entry: gpunode.MigStatus, model: GpuModel, total_mib: int) -> Mig:
    """The MIG state of a device with this much memory. Raises FieldError."""
    if entry.instances and entry.enabled is False:
        raise FieldError(f"{path}.instances", "a GPU whose MIG mode is off has no instances")
    geometry = _geometry(path, entry, model)
    instances = []
    for i, instance in enumerate(entry.instances or ()):
        where = f"{path}.instances[{i}]"
        _check_uuid(f"{where}.uuid", instance.uuid)
        try:
            profile = parse_profile(instance.profile)
        except ValueError as error:
            raise FieldError(f"{where}.profile", str(error)) from None
        known = geometry.profile(profile) if geometry is not None else None
        size = instance.size or (known.size if known is not None else 1)
        if instance.start is not None and instance.size is None:
            raise FieldError(f"{where}.start", "a start without a size; give both or neither")
        held = instance.holder
        holder = _read_holder(f"{where}.holder", held, total_mib) if held is not None else None
        instances.append(MigInstance(instance.uuid, profile, instance.start, size, holder))
    _check_places(path, instances, entry.grid_size or MAX_GRID)
    illegal = _first_illegal(geometry, instances)
    if illegal is not None and _own_placements(entry):
        problem = "its size or start does not match its profile in the same report"
        raise FieldError(f"{path}.instances[{illegal}]", problem)
    if illegal is not None:
        # The built-in table does not describe this device after all.
        geometry = None
    enabled = bool(instances) if entry.enabled is None else entry.enabled
    return Mig(enabled, bool(entry.creatable), geometry, tuple(instances))


def _check_places(path: str, instances: list[MigInstance], grid: int) -> None:
    """Instances with a known place lie on the grid without overlap."""
    occupied: dict[int, int] = {}
    for i, instance in enumerate(instances):
        if instance.start is None:
            continue
        where, end = f"{path}.instances[{i}]", instance.start + instance.size
        if end > grid:
            raise FieldError(where, f"units {instance.start} to {end} leave the grid of {grid}")
        for unit in range(instance.start, end):
            if unit in occupied:
                raise FieldError(where, f"overlaps {path}.instances[{occupied[unit]}] at unit {unit}")
            occupied[unit] = i


def _first_illegal(geometry: Geometry | None, instances: list[MigInstance]) -> int | None:
    """The first instance that is impossible under a geometry; instances of unknown profiles pass."""
    if geometry is None:
        return None
    for i, instance in enumerate(instances):
        if (instance.start or 0) + instance.size > geometry.grid:
            return i
        profile = geometry.profile(instance.profile)
        if profile is not None and (
            instance.size != profile.size or instance.start not in (None, *profile.starts)
        ):
            return i
    return None


def _own_placements(entry: gpunode.MigStatus) -> list[gpunode.ProfileStatus]:
    """The profiles with placements; without a grid their starts are meaningless."""
    return [profile for profile in entry.profiles or () if profile.starts] if entry.grid_size else []


def _geometry(path: str, entry: gpunode.MigStatus, model: GpuModel) -> Geometry | None:
    """The device's own placements; without them the built-in table for its model."""
    placed = _own_placements(entry)
    if not entry.grid_size or not placed:
        table = geometry_for(model.mig_table)
        return table if table is None or entry.grid_size in (None, 0, table.grid) else None
    profiles = [
        Profile(p.name, p.size, tuple(p.starts), p.max_instances, p.memory_mib or None) for p in placed
    ]
    try:
        return geometry_from_report(entry.grid_size, profiles)
    except ValueError as error:
        raise FieldError(path, str(error)) from None
