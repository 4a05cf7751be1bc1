"""A device's MIG mode, placements and instances from a report, checked, and the holders of both."""

import re

from scheduler_ext.core.gpu.gpu import Holder, Mig, MigInstance
from scheduler_ext.core.gpu.mig_geometry import Geometry, geometry_for, geometry_from_report
from scheduler_ext.core.gpu.mig_profile import MAX_GRID, Profile, parse_profile
from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.wire.gpunode import HolderStatus, MigStatus, ProfileStatus

_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,95}")


class FieldError(ValueError):
    """An error in a report: a field path and its problem."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"status.{path}: {problem}")


def check_uuid(path: str, uuid: str) -> None:
    """Raises FieldError for text that is no UUID: pods carry UUIDs in an annotation, separated by commas."""
    if not uuid:
        raise FieldError(path, "is empty; a device is known by its UUID")
    if not _UUID.fullmatch(uuid):
        raise FieldError(path, f"{uuid!r} is no UUID; those have letters, digits and . _ : / - only")


def read_holder(path: str, entry: HolderStatus, total_mib: int) -> Holder:
    """The holder of a device, or of an instance on one, of this much memory. Raises FieldError."""
    if entry.memory_mib is not None and entry.memory_mib > total_mib:
        raise FieldError(f"{path}.memoryMiB", f"{entry.memory_mib} MiB of a device of {total_mib}")
    return Holder(entry.uid or None, entry.namespace, entry.name, entry.container or None, entry.memory_mib)


def read_mig(path: str, entry: MigStatus, model: GpuModel, total_mib: int) -> Mig:
    """The MIG state of a device with this much memory. Raises FieldError."""
    if entry.instances and entry.enabled is False:
        raise FieldError(f"{path}.instances", "a GPU whose MIG mode is off has no instances")
    geometry = _geometry(path, entry, model)
    instances = []
    for i, instance in enumerate(entry.instances or ()):
        where = f"{path}.instances[{i}]"
        check_uuid(f"{where}.uuid", instance.uuid)
        try:
            profile = parse_profile(instance.profile)
        except ValueError as error:
            raise FieldError(f"{where}.profile", str(error)) from None
        known = geometry.profile(profile) if geometry is not None else None
        size = instance.size or (known.size if known is not None else 1)
        if instance.start is not None and instance.size is None:
            raise FieldError(f"{where}.start", "a start without a size; give both or neither")
        held = instance.holder
        holder = read_holder(f"{where}.holder", held, total_mib) if held is not None else None
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


def _own_placements(entry: MigStatus) -> list[ProfileStatus]:
    """The profiles with placements; without a grid their starts are meaningless."""
    return [profile for profile in entry.profiles or () if profile.starts] if entry.grid_size else []


def _geometry(path: str, entry: MigStatus, model: GpuModel) -> Geometry | None:
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
