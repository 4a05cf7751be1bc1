"""A pool of equal MIG GPUs as a model: which masks there are, how one becomes another, what pods ask."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.forecast.mig_value import Masks, MigPlacements, shapes
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.gpu.mig_profile import window
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.core.node.lazy import lazy

Indexes = npt.NDArray[np.int64]
# GPUs of the pool, and slices that would be held if all pods were accepted, in parts of those there are.
GPUS = 100
LOAD = 1.0
# Every shape is asked for now and then, or nothing would be known of the masks that it makes.
_LEAST_PART = 0.001


@dataclass(frozen=True)
class MigPool:
    """``parts`` ``[shape]`` is how often each shape is asked for; a shape is a size and starts.

    ``profiles`` has for each shape the index of one profile that has it; ``masks`` ``[state]`` are those
    that instances can make, ascending, and ``state_of`` ``[mask]`` their number, -1 for others. max_instances
    and media engines are left out.
    """

    geometry: Geometry
    profiles: tuple[int, ...]
    parts: Floats
    masks: Masks
    state_of: Indexes

    @lazy
    def sizes(self) -> Floats:
        """The units of each shape, ``[shape]``."""
        return np.array([self.geometry.profiles[index].size for index in self.profiles], np.float64)

    @lazy
    def arrivals(self) -> Floats:
        """Pods that ask for each shape in a mean lifetime, in the whole pool, ``[shape]``."""
        rate: Floats = LOAD * GPUS * self.geometry.grid * self.parts / float(self.parts @ self.sizes)
        return rate

    @lazy
    def windows(self) -> dict[int, float]:
        """How often an instance comes to lie in each window, if all starts are equally likely."""
        often: dict[int, float] = {}
        for index, rate in zip(self.profiles, self.arrivals.tolist(), strict=True):
            profile = self.geometry.profiles[index]
            for start in profile.starts:
                taken = window(profile, start)
                often[taken] = often.get(taken, 0.0) + rate / GPUS / len(profile.starts)
        return often

    @lazy
    def departures(self) -> Floats:
        """How often an instance leaves, from one mask to another, per mean lifetime, ``[state, state]``.

        A mask does not tell of which instances it consists. The ways to tile it are weighted by how often
        these come, as if GPUs took whatever fits, which has a product form.
        """
        often = self.windows
        ways = {0: 1.0}
        for mask in self.masks[1:].tolist():
            lowest = mask & -mask
            ways[mask] = sum(
                rate * ways.get(mask & ~taken, 0.0)
                for taken, rate in often.items()
                if taken & lowest and taken & mask == taken
            )
        rates = np.zeros((len(self.masks), len(self.masks)))
        for state, mask in enumerate(self.masks.tolist()):
            for taken, rate in often.items():
                rest = mask & ~taken
                if taken & mask == taken and rest in ways:
                    rates[state, self.state_of[rest]] += rate * ways[rest] / ways[mask]
        return rates

    def choices(self, placements: MigPlacements) -> tuple[Floats, Indexes]:
        """What each shape costs beside each mask (infinite where it does not fit), and what the mask becomes,
        ``[shape, state]``, -1 where it does not fit."""
        costs, after = [], []
        for index in self.profiles:
            size = self.geometry.profiles[index].size
            start = placements.start[self.masks, index].astype(np.int64)
            made = self.masks | (((1 << size) - 1) << np.maximum(start, 0))
            costs.append(placements.cost[self.masks, index])
            after.append(np.where(start >= 0, self.state_of[made], -1))
        return np.array(costs), np.array(after)


def mig_pool(geometry: Geometry, parts: Floats) -> MigPool:
    """The pool whose pods ask for a geometry's profiles in these ``parts``, ``[profile]``."""
    first: dict[tuple[int, tuple[int, ...]], int] = {}
    asked: dict[int, float] = {}
    least = set(shapes(geometry))
    for index, profile in enumerate(geometry.profiles):
        shape = first.setdefault((profile.size, profile.starts), index)
        part = max(float(parts[index]), _LEAST_PART if index in least else 0.0)
        asked[shape] = asked.get(shape, 0.0) + part
    profiles = tuple(first.values())
    weights = np.array([asked[index] for index in profiles])
    windows = {
        window(geometry.profiles[index], start)
        for index in profiles
        for start in geometry.profiles[index].starts
    }
    masks = np.array(_reachable(windows), np.int64)
    state_of = np.full(1 << geometry.grid, -1, np.int64)
    state_of[masks] = np.arange(len(masks))
    return MigPool(geometry, profiles, weights / weights.sum(), masks, state_of)


def _reachable(windows: set[int]) -> list[int]:
    found, ahead = {0}, [0]
    while ahead:
        mask = ahead.pop()
        for taken in windows:
            if not mask & taken and mask | taken not in found:
                found.add(mask | taken)
                ahead.append(mask | taken)
    return sorted(found)
