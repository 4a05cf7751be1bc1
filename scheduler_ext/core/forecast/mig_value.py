"""Where one more MIG instance costs the pods that are likely to come the least.

A mask is an occupancy mask of one GPU (mig_geometry.py). Everything that matters for a choice depends on the
mask and the profile only, so that all choices are worked out once per workload, and a decision over many GPUs
is a lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.gpu.mig_profile import Profile, window
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.core.request.pod_kinds import Workload

Masks = npt.NDArray[np.int64]
Starts = npt.NDArray[np.int8]

# Differences of sums of parts are not exact; costs closer than this are the same cost.
_DECIMALS = 9


@dataclass(frozen=True, slots=True)
class MigWeights:
    """How much the room for several instances counts, and how much a full GPU.

    ``exponent``: where a GPU has room for a part of the instances that an empty one holds, this power of the
    part is what that is worth. Above 1 the room on emptier GPUs is worth more, as it can still become room
    for something larger. ``best_fit`` is what is charged for a GPU that stays all free, in GPUs, and less in
    proportion to what stays free.

    The defaults are one pair for all geometries and mixes, from the middle of a plateau. Slice acceptance of
    100 GPUs at offered load 1.0 was, against the best of first fit, best fit, MFI and FGD for each of 42
    pairs of a geometry and a mix, in the mean and at worst: 0.11 and -0.11 points with (1.35, 0.02), 0.09 and
    -0.12 with (1.25, 0.04), 0.09 and -0.29 with (1.6, 0.04), -0.22 and -2.69 with (1, 0), which is FGD; for
    52 other pairs, 0.11 and -0.47 with the defaults, 47 of them no more than 0.1 below. The difference is
    largest where small profiles are common. These gained nothing more: a charge for opening an empty GPU, a
    part for whether a profile fits at all, roots of the free units, other powers of parts and sizes, high
    starts before low ones, the expected worth after some instances have left, and weights that fall as the
    cluster has more room for a profile. Choosing among eight such variants for each mix, by simulating 80,000
    pods with each, gained 0.05.
    """

    exponent: float = 1.35
    best_fit: float = 0.02


@dataclass(frozen=True, eq=False)
class MigWorth:
    """What a GPU is worth to the MIG pods to come, in GPUs, ``[mask]``: ``worth`` by the room it has, and
    ``kept`` once an instance is placed there, less the charge for what stays free."""

    worth: Floats
    kept: Floats

    def cost(self, before: Masks, after: Masks) -> Floats:
        """What it costs to go from one mask to another by an instance, ``[case]``."""
        lost: Floats = self.worth[before] - self.kept[after]
        return lost


@dataclass(frozen=True, eq=False)
class MigPlacements:
    """The best start of every profile beside every occupancy mask, and what it costs; ``[mask, profile]``.

    ``cost`` is infinite and ``start`` -1 where none fits. Profiles are in the geometry's order, and a
    profile's column lies in one piece, so that ``cost[:, profile][masks]`` reads little. max_instances and
    media engines of what is held are not in a mask: who knows them bars such GPUs himself.
    """

    cost: Floats
    start: Starts


def mig_mix(workload: Workload) -> dict[str, float]:
    """How often each profile is asked for, per pod; empty where no pod asks for MIG."""
    mix: dict[str, float] = {}
    for task, part in workload.parts.items():
        for name, count in task.mig:
            mix[name] = mix.get(name, 0.0) + part * count
    return mix


def expected_mix(geometry: Geometry, workload: Workload) -> dict[str, float]:
    """How often each of a geometry's profiles is asked for: as ``mig_mix`` says, and by the pods of which
    nothing is known, who ask for every shape equally often."""
    known = mig_mix(workload)
    mix = {profile.name: known[profile.name] for profile in geometry.profiles if profile.name in known}
    alike = shapes(geometry)
    for index in alike:
        name = geometry.profiles[index].name
        mix[name] = mix.get(name, 0.0) + workload.unknown / len(alike)
    return mix


def mig_worth(geometry: Geometry, mix: Mapping[str, float], weights: MigWeights = MigWeights()) -> MigWorth:
    """What each mask is worth to the pods of ``mix``, read-only."""
    worth = room_worth(geometry, mix, weights.exponent)
    masks = np.arange(1 << geometry.grid, dtype=np.int64)
    kept = worth - weights.best_fit * (geometry.grid - np.bitwise_count(masks)) / geometry.grid
    worth.setflags(write=False)
    kept.setflags(write=False)
    return MigWorth(worth, kept)


def room_worth(geometry: Geometry, mix: Mapping[str, float], exponent: float) -> Floats:
    """What the pods of ``mix`` can use of each mask's free units, in GPUs, ``[mask]``.

    The mean over profiles of size * (how many fit an empty GPU) * (part of these that still fit) ** exponent.
    With an exponent of 1, free units less this are the fragmentation of Weng et al., "Beware of
    Fragmentation" (USENIX ATC'23), of a GPU whose residual is a mask.
    """
    placeable = geometry.placeable
    sizes = np.array([profile.size for profile in geometry.profiles], np.float64)
    empty = placeable[0].astype(np.float64)
    parts = (placeable / empty) ** exponent
    worth: Floats = parts @ (mix_of(geometry, mix) * sizes * empty) / geometry.grid
    return worth


def mix_of(geometry: Geometry, mix: Mapping[str, float]) -> Floats:
    """The parts of ``mix`` that ask for this geometry's profiles, ``[profile]``, summing to 1.

    Where it asks for none of them, all shapes are asked for equally often.
    """
    asked = np.array([max(mix.get(profile.name, 0.0), 0.0) for profile in geometry.profiles])
    if not asked.any():
        asked[list(shapes(geometry))] = 1.0
    part: Floats = asked / asked.sum()
    return part


def shapes(geometry: Geometry) -> tuple[int, ...]:
    """One profile of each size and set of starts, by index: +me, +gfx and -me forms lie alike."""
    chosen: dict[tuple[int, tuple[int, ...]], int] = {}
    for index, profile in enumerate(geometry.profiles):
        known = chosen.setdefault((profile.size, profile.starts), index)
        if profile.max_instances > geometry.profiles[known].max_instances:
            chosen[profile.size, profile.starts] = index
    return tuple(sorted(chosen.values()))


def _ascending(profile: Profile) -> Iterable[int]:
    return profile.starts


def least_cost(
    geometry: Geometry,
    cost: Callable[[Masks, Masks], Floats],
    order: Callable[[Profile], Iterable[int]] = _ascending,
) -> MigPlacements:
    """The cheapest start for every mask and profile; of equal ones the first in ``order``.

    ``cost`` is asked for masks before and after an instance is created, each ``[case]``.
    """
    shape = (1 << geometry.grid, len(geometry.profiles))
    best = np.full(shape, np.inf, order="F")
    starts = np.full(shape, -1, np.int8, order="F")
    masks = np.arange(shape[0], dtype=np.int64)
    for index, profile in enumerate(geometry.profiles):
        for start in order(profile):
            taken = window(profile, start)
            free = masks[(masks & taken) == 0]
            found = np.round(cost(free, free | taken), _DECIMALS)
            cheaper = found < best[free, index]
            best[free[cheaper], index] = found[cheaper]
            starts[free[cheaper], index] = start
    best.setflags(write=False)
    starts.setflags(write=False)
    return MigPlacements(best, starts)
