"""Where MIG instances can lie on one GPU. A GPU's placement grid has `grid` units (8 on every GPU with seven
slices, 4 on A30, 12 on RTX PRO 6000). An occupancy mask has one bit per unit, bit 0 for unit 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from operator import or_
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from scheduler_ext.core.gpu.mig_profile import (
    MAX_GRID,
    Profile,
    least_memory_mib,
    media_conflict,
    parse_profile,
    window,
)
from scheduler_ext.core.gpu.mig_tables import FALLBACK_PROFILES
from scheduler_ext.core.gpu.models import GpuModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# NVML numbers 18 GPU instance profiles; the bound only keeps a broken report from filling memory.
MAX_PROFILES = 64


@dataclass(frozen=True)
class Geometry:
    """The placement rules of one GPU: its grid in units, and its profiles in the order of all results. Build
    it with geometry_from_report or geometry_for, which hand out the same object for equal ones, so that GPUs
    of a kind share their tables. Instances are (profile name, start) pairs, start in units."""

    grid: int
    profiles: tuple[Profile, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Geometries are cache keys on the hot path; hashing every profile each time would cost microseconds.
        return hash((self.grid, self.profiles))

    @cached_property
    def _by_name(self) -> dict[str, Profile]:
        return {profile.name: profile for profile in self.profiles}

    @cached_property
    def placeable(self) -> NDArray[np.uint8]:
        """How many instances of each profile alone still fit, [mask, profile], read-only. max_instances is
        applied as on an empty GPU; media engines are not, because a mask does not show them."""
        return _placeable(self)

    def profile(self, name: str) -> Profile | None:
        return self._by_name.get(name)

    def creatable_starts(self, held: Sequence[tuple[str, int]], profile: str) -> tuple[int, ...]:
        """Return the starts where one more instance of `profile` could be created, ascending, by placements,
        max_instances and media engines; empty for a profile that this GPU lacks, or beside one."""
        wanted, names = self.profile(profile), [name for name, _ in held]
        if wanted is None or not self._by_name.keys() >= set(names):
            return ()
        # Only pairs with the new instance: existing ones are a fact, whatever the rule says of them.
        barred = any(media_conflict(profile, name) for name in names)
        if barred or names.count(profile) >= wanted.max_instances:
            return ()
        mask = self.occupancy(held)
        return tuple(start for start in wanted.starts if not mask & window(wanted, start))

    def occupancy(self, instances: Iterable[tuple[str, int]]) -> int:
        """Return the mask of units that instances take."""
        return reduce(or_, (window(self._by_name[name], start) for name, start in instances), 0)


# A geometry stays the one object for its values as long as anything refers to it.
_IN_USE: WeakValueDictionary[Geometry, Geometry] = WeakValueDictionary()


def geometry_for(table: str | None) -> Geometry | None:
    """Return the package's geometry by table name such as "A100-80GB", or None if it has no such table."""
    fallback = FALLBACK_PROFILES.get(table) if table is not None else None
    return None if fallback is None else geometry_from_report(*fallback)


def slice_profile(model: GpuModel) -> Profile | None:
    """Return the profile of a model of MIG instances (A100-80GB-MIG-1G.10GB), as in the package's table of
    its GPU; None if it has none."""
    geometry, name = geometry_for(model.mig_table), model.name.rpartition("-MIG-")[2].lower()
    profiles = geometry.profiles if geometry is not None else ()
    return next((each for each in profiles if each.name.replace("+", ".") == name.replace("+", ".")), None)


def slice_memory_mib(model: GpuModel) -> int | None:
    """Return the memory (MiB) of a model of MIG instances: as in the package's table of its GPU, otherwise
    the least that its name states; None if that is nothing."""
    profile = slice_profile(model)
    return (profile.memory_mib if profile is not None else None) or least_memory_mib(model.name)


def geometry_from_report(
    grid_size: int, profiles: Sequence[Profile], name_of: Callable[[str], str] = parse_profile
) -> Geometry:
    """Return the checked geometry of a GPU from its node's report; equal reports give the same object.
    Profiles and starts may come in any order. `name_of` returns a profile's canonical name, and raises
    ValueError for invalid ones. Raises ValueError that names the impossible field."""
    return _checked_geometry(grid_size, tuple(profiles), name_of)


@lru_cache(maxsize=256)
def _checked_geometry(grid: int, profiles: tuple[Profile, ...], name_of: Callable[[str], str]) -> Geometry:
    if not 1 <= grid <= MAX_GRID:
        raise ValueError(f"gridSize: {grid} is outside 1..{MAX_GRID}; report the placement units of the GPU")
    if not 1 <= len(profiles) <= MAX_PROFILES:
        raise ValueError(f"profiles: {len(profiles)} entries are outside 1..{MAX_PROFILES}")
    checked = [
        _checked_profile(f"profiles[{i}]", profile, grid, name_of) for i, profile in enumerate(profiles)
    ]
    for name, count in Counter(profile.name for profile in checked).items():
        if count > 1:
            raise ValueError(f"profiles: {name} is listed {count} times; report each profile once")
    checked.sort(key=lambda profile: (profile.size, profile.name))
    geometry = Geometry(grid, tuple(checked))
    return _IN_USE.setdefault(geometry, geometry)


def _checked_profile(field: str, profile: Profile, grid: int, name_of: Callable[[str], str]) -> Profile:
    try:
        name = name_of(profile.name)
    except ValueError as error:
        raise ValueError(f"{field}.name: {error}") from error
    size, count, most, mib = profile.size, len(profile.starts), profile.max_instances, profile.memory_mib
    outside = next((start for start in profile.starts if not 0 <= start <= grid - size), None)
    for wrong, message in (
        (not 1 <= size <= grid, f"size: {size} is outside 1..{grid}, the units of the grid"),
        (not count, "starts: empty; report the starts that NVML lists, or leave out the profile"),
        (count > grid, f"starts: {count} entries on a grid of {grid}; list each once"),
        (outside is not None, f"starts: {outside} with size {size} leaves the grid of {grid}"),
        (most < 1, f"maxInstances: {most} must be at least 1"),
        (mib is not None and mib < 1, f"memoryMiB: {mib} must be at least 1; null where unknown"),
    ):
        if wrong:
            raise ValueError(f"{field}.{message}")
    starts = tuple(sorted(set(profile.starts)))
    return Profile(name, profile.size, starts, profile.max_instances, profile.memory_mib)


@lru_cache(maxsize=256)
def _placeable(geometry: Geometry) -> NDArray[np.uint8]:
    """One table per distinct geometry: a grid of n units has few masks, 2 ** n (16, 256, 4096 on GPUs)."""
    # Imported here: the agent reads geometries and never needs a table, and numpy takes 25 MB.
    import numpy as np

    masks = np.arange(1 << geometry.grid, dtype=np.int64)
    placeable = np.zeros((len(masks), len(geometry.profiles)), np.uint8)
    for index, profile in enumerate(geometry.profiles):
        # Of windows of one size, always taking the next free one is optimal.
        end = np.zeros(len(masks), np.uint8)
        for start in profile.starts:
            free = ((masks & window(profile, start)) == 0) & (end <= start)
            placeable[:, index] += free
            end[free] = start + profile.size
        # Never more than the grid has units, so that any reported cap fits the array's type.
        np.minimum(placeable[:, index], min(profile.max_instances, MAX_GRID), out=placeable[:, index])
    placeable.setflags(write=False)
    return placeable
