"""Where MIG instances can lie on one GPU, and how much a choice leaves for the pods that come later.

A GPU's placement grid has `grid` units (8 on every GPU with seven slices, 4 on A30, 12 on RTX PRO 6000).
An occupancy mask has one bit per unit, bit 0 for unit 0. What a mask leaves is looked up in tables over all
masks (mig_masks.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from scheduler_ext.core.gpu.mig_profile import MAX_GRID, Profile, media_conflict, parse_profile, window
from scheduler_ext.core.gpu.mig_tables import FALLBACK_PROFILES

if TYPE_CHECKING:
    from scheduler_ext.core.gpu.mig_masks import MaskTables

# NVML numbers 18 GPU instance profiles; the bound only keeps a broken report from filling memory.
MAX_PROFILES = 64


@dataclass(frozen=True)
class Geometry:
    """The placement rules of one GPU: its grid in units, and its profiles in the order of all results.

    Equal by value, and cheap to hash. Build it with geometry_from_report or geometry_for, which check it and
    hand out the same object for equal ones, so that GPUs of a kind share their tables.
    Instances are (profile name, start) pairs, start in units.
    """

    grid: int
    profiles: tuple[Profile, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Geometries are cache keys on the hot path; hashing every profile each time would cost microseconds.
        return hash((self.grid, self.profiles))

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {profile.name: index for index, profile in enumerate(self.profiles)}

    @cached_property
    def tables(self) -> MaskTables:
        """The tables over all occupancy masks, computed on first use, once per distinct geometry."""
        # Here, because the agent reads geometries and asks none for a table: numpy takes 25 MB.
        from scheduler_ext.core.gpu.mig_masks import mask_tables

        return mask_tables(self.grid, self.profiles)

    def profile(self, name: str) -> Profile | None:
        """Return the profile of that canonical name, or None where this GPU has no such profile."""
        index = self._by_name.get(name)
        return None if index is None else self.profiles[index]

    def occupancy(self, instances: Sequence[tuple[str, int]]) -> int:
        """Return the mask of units that instances take.

        Raises ValueError for a profile that this GPU lacks, an instance off the grid, or two that overlap.
        """
        mask = 0
        for name, start in instances:
            profile = self._known(name)
            if start < 0 or start + profile.size > self.grid:
                raise ValueError(
                    f"instance {name} at start {start} takes {profile.size} units and leaves the grid of"
                    f" {self.grid}; report the start that NVML gives"
                )
            taken = window(profile, start)
            if mask & taken:
                raise ValueError(f"instance {name} at start {start} overlaps another; report each one once")
            mask |= taken
        return mask

    def creatable_starts(self, held: Sequence[tuple[str, int]], profile: str) -> tuple[int, ...]:
        """Return the starts where one more instance of `profile` could be created, ascending.

        Placements beside the `held` ones, max_instances and the media engines all count. Empty where there is
        none, also for a profile that this GPU lacks. Raises ValueError for impossible `held` instances, as
        occupancy does.
        """
        mask = self.occupancy(held)
        wanted = self.profile(profile)
        if wanted is None or not self._engines_and_caps_allow([name for name, _ in held], [profile]):
            return ()
        return tuple(start for start in wanted.starts if not mask & window(wanted, start))

    def placeable(self, mask: int) -> tuple[int, ...]:
        """Return, per profile, how many instances of it alone still fit beside the occupied units of `mask`.

        max_instances is applied as on an empty GPU; media engines are not, as a mask does not tell them.
        """
        self._check_mask(mask)
        return tuple(int(count) for count in self.tables.placeable[mask])

    def placeability(self, mask: int) -> float:
        """Return how much of the GPU's choice of placements the occupancy `mask` leaves, 0..1.

        The mean over profiles, weighted by size, of placeable(mask) / placeable(empty). 1 when empty, 0 when
        full, never more when more is occupied. Profiles with the same size and starts (+me, +gfx and -me
        forms) count once: to a mask they are the same shape, and counting each form would drown the large
        profiles, which have fewer.

        Size weights and plain ratios, because placing by least loss of this number accepted, over both loads
        together, at least as many slices as any other form tried, with nothing to tune. Mean slice acceptance
        in % at offered load 0.85 and 1.0, 100 GPUs of 80 GB under churn, four mixes of profiles: this 97.6
        and 89.2; unweighted mean 96.6 and 87.9; square roots of the ratios 97.1 and 88.1; their squares 97.7
        and 89.0; the +me form counted too 97.6 and 89.0; only whether each profile still fits 86.7 and 78.3;
        first fit 94.8 and 85.0. Terms for free units or emptiness added nothing.
        """
        self._check_mask(mask)
        return int(self.tables.worth[mask]) / self.tables.full_worth

    def pack(
        self, instances: Sequence[tuple[str, int]], wants: Sequence[str]
    ) -> list[tuple[str, int]] | None:
        """Place all wanted profiles beside the existing instances, or return None where that is impossible.

        Exact: None means that no choice of starts holds them all. Of the choices that do, the one that
        leaves the highest placeability; the result is in the order of `wants`, which may repeat a profile.
        At most one step per mask, want and start; results are remembered. Raises ValueError for impossible
        `instances`, as occupancy does.
        """
        mask = self.occupancy(instances)
        if not self._engines_and_caps_allow([name for name, _ in instances], wants):
            return None
        # Large ones first leaves the fewest masks; one order for all pods that want the same finds it cached.
        order = sorted(range(len(wants)), key=lambda i: (-self._known(wants[i]).size, wants[i]))
        starts = _packed_starts(self, mask, tuple(wants[i] for i in order))
        if starts is None:
            return None
        start_of = dict(zip(order, starts, strict=True))
        return [(name, start_of[i]) for i, name in enumerate(wants)]

    def _engines_and_caps_allow(self, held: Sequence[str], wants: Sequence[str]) -> bool:
        """Check what does not depend on the starts: known profiles, max_instances, media engines."""
        if not wants:
            return True
        # Every want takes a unit: the test spares counting the pairs of an absurd wish.
        if len(held) + len(wants) > self.grid:
            return False
        counts = Counter(held) + Counter(wants)
        for name in set(wants):
            profile = self.profile(name)
            if profile is None or counts[name] > profile.max_instances:
                return False
        # Only pairs with a new instance: what lies there already is a fact, whatever the rule says.
        return not any(
            media_conflict(want, other) for i, want in enumerate(wants) for other in (*held, *wants[i + 1 :])
        )

    def _known(self, name: str) -> Profile:
        profile = self.profile(name)
        if profile is None:
            names = ", ".join(known.name for known in self.profiles)
            raise ValueError(f"MIG profile {name[:80]!r} is not one of this GPU's profiles; they are {names}")
        return profile

    def _check_mask(self, mask: int) -> None:
        # A negative index would silently read the table from its end.
        if not 0 <= mask < 1 << self.grid:
            raise ValueError(f"occupancy mask {mask:#x} is not one of a grid of {self.grid} units")


def geometry_for(table: str | None) -> Geometry | None:
    """Return the package's geometry by table name such as "A100-80GB", or None where it has no such table."""
    fallback = FALLBACK_PROFILES.get(table) if table is not None else None
    return None if fallback is None else geometry_from_report(*fallback)


def geometry_from_report(
    grid_size: int, profiles: Sequence[Profile], name_of: Callable[[str], str] = parse_profile
) -> Geometry:
    """Return the geometry of what a node reports of a GPU, checked; equal reports give the same object.

    Profiles and starts may come in any order. `name_of` gives a profile's canonical name, and raises
    ValueError for what is none. Raises ValueError naming the field for what no GPU has: a grid outside 1..16,
    no or too many profiles, an illegal or repeated name, a size, maxInstances or memoryMiB below 1, starts
    that are missing, too many or off the grid.
    """
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
    return _shared(Geometry(grid, tuple(checked)))


@lru_cache(maxsize=256)
def _shared(geometry: Geometry) -> Geometry:
    return geometry


def _checked_profile(field: str, profile: Profile, grid: int, name_of: Callable[[str], str]) -> Profile:
    try:
        name = name_of(profile.name)
    except ValueError as error:
        raise ValueError(f"{field}.name: {error}") from error
    if not 1 <= profile.size <= grid:
        raise ValueError(f"{field}.size: {profile.size} is outside 1..{grid}, the units of the grid")
    if not profile.starts:
        raise ValueError(
            f"{field}.starts: empty; report the starts that NVML lists, or leave out the profile"
        )
    if len(profile.starts) > grid:
        raise ValueError(f"{field}.starts: {len(profile.starts)} entries on a grid of {grid}; list each once")
    for start in profile.starts:
        if not 0 <= start <= grid - profile.size:
            raise ValueError(f"{field}.starts: {start} with size {profile.size} leaves the grid of {grid}")
    if profile.max_instances < 1:
        raise ValueError(f"{field}.maxInstances: {profile.max_instances} must be at least 1")
    if profile.memory_mib is not None and profile.memory_mib < 1:
        raise ValueError(f"{field}.memoryMiB: {profile.memory_mib} must be at least 1; null where unknown")
    starts = tuple(sorted(set(profile.starts)))
    return Profile(name, profile.size, starts, profile.max_instances, profile.memory_mib)


@lru_cache(maxsize=8192)
def _packed_starts(geometry: Geometry, mask: int, wants: tuple[str, ...]) -> tuple[int, ...] | None:
    """Walk want by want over the masks that can be reached, each remembered with one way to it."""
    ways: dict[int, tuple[int, ...]] = {mask: ()}
    for profile in map(geometry.profile, wants):
        assert profile is not None  # pack checked the names
        further: dict[int, tuple[int, ...]] = {}
        for occupied, starts in ways.items():
            for start in profile.starts:
                taken = window(profile, start)
                if not occupied & taken:
                    further.setdefault(occupied | taken, (*starts, start))
        ways = further
    if not ways:
        return None
    # Of equal ones the highest mask: low units are the ones that most profiles can start at.
    return ways[max(ways, key=lambda reached: (int(geometry.tables.worth[reached]), reached))]
