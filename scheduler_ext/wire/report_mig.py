"""A device's MIG mode, placements and instances from a report, checked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from scheduler_ext.core.gpu.gpu import Mig, MigInstance
from scheduler_ext.core.gpu.mig_geometry import Geometry, geometry_for, geometry_from_report
from scheduler_ext.core.gpu.mig_profile import MAX_GRID, Profile, parse_profile
from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.wire.gpunode import MigStatus, ProfileStatus
from scheduler_ext.wire.report_fields import FieldError, check_uuid, read_holder

_T = TypeVar("_T")


def read_mig(path: str, entry: MigStatus, model: GpuModel, total_mib: int) -> Mig:
    """The MIG state of a device with this much memory. Raises FieldError."""
    if entry.instances and entry.enabled is False:
        raise FieldError(f"{path}.instances", "a GPU whose MIG mode is off has no instances")
    geometry = _geometry(path, entry, model)
    instances = []
    for i, instance in enumerate(entry.instances or ()):
        where = f"{path}.instances[{i}]"
        check_uuid(f"{where}.uuid", instance.uuid)
        profile = _read(f"{where}.profile", partial(parse_profile, instance.profile))
        size = instance.size or _size_of(profile, geometry)
        if instance.start is not None and instance.size is None:
            raise FieldError(f"{where}.start", "a start without a size; give both or neither")
        holder = (
            read_holder(f"{where}.holder", instance.holder, total_mib)
            if instance.holder is not None
            else None
        )
        instances.append(MigInstance(instance.uuid, profile, instance.start, size, holder))
    _check_places(path, instances, entry.grid_size or MAX_GRID)
    illegal = _first_illegal(geometry, instances)
    if illegal is not None and _own_placements(entry):
        raise FieldError(
            f"{path}.instances[{illegal}]", "its size or start is none of its profile's in the same report"
        )
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


def _size_of(profile: str, geometry: Geometry | None) -> int:
    """The size of an instance without one: its profile's, if known."""
    known = geometry.profile(profile) if geometry is not None else None
    return known.size if known is not None else 1


def _first_illegal(geometry: Geometry | None, instances: list[MigInstance]) -> int | None:
    """The first instance that is impossible under a geometry; instances of unknown profiles pass."""
    for i, instance in enumerate(instances):
        if geometry is not None and (instance.start or 0) + instance.size > geometry.grid:
            return i
        profile = geometry.profile(instance.profile) if geometry is not None else None
        placed = instance.start is None or (profile is not None and instance.start in profile.starts)
        if profile is not None and (instance.size != profile.size or not placed):
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
    grid = entry.grid_size
    return _read(path, lambda: geometry_from_report(grid, profiles))


def _read(path: str, read: Callable[[], _T]) -> _T:
    try:
        return read()
    except ValueError as error:
        raise FieldError(path, str(error)) from None
