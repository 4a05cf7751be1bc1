"""MIG placement policies: the product's own, and the published ones that it is compared with."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.forecast.mig_value import DECIMALS, Masks, mig_worth, shapes, usable_units
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.gpu.mig_profile import Profile, window
from scheduler_ext.core.node.columns import Floats

PerGpu = npt.NDArray[np.int64]
Placement = tuple[int, int]

# Best index (arXiv 2409.06646) for seven slices on eight units, by size and starts of a profile.
_ORDERS: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = {
    (4, (0, 4)): (4, 0),
    (2, (0, 2, 4)): (4, 0, 2),
    (2, (0, 2, 4, 6)): (6, 4, 0, 2),
    (1, (0, 1, 2, 3, 4, 5, 6)): (6, 4, 5, 0, 1, 2, 3),
}


@dataclass(frozen=True, eq=False)
class MigPlacements:
    """The best start of every profile beside every occupancy mask, and its cost; `[mask, profile]`. Where
    no start fits, `cost` is infinite and `start` is -1. Profiles are in the geometry's order, and the
    column of a profile is contiguous, so that `cost[:, profile][masks]` reads little memory. A mask holds
    neither max_instances nor media engines: callers that know them exclude such GPUs. `company`
    `[instances]` is the cost by the number of instances on a GPU, in addition."""

    cost: Floats
    start: npt.NDArray[np.int8]
    company: Floats


def least_cost(
    geometry: Geometry,
    cost: Callable[[Masks, Masks], Floats],
    order: Callable[[Profile], Iterable[int]] = attrgetter("starts"),
    company: Floats | None = None,
) -> MigPlacements:
    """The cheapest start for every mask and profile; of equally cheap starts the first in `order`. `cost`
    takes the masks before and after an instance is created, each `[case]`. Without `company`, the number of
    instances on a GPU has no bearing."""
    shape = (1 << geometry.grid, len(geometry.profiles))
    best = np.full(shape, np.inf, order="F")
    starts = np.full(shape, -1, np.int8, order="F")
    masks = np.arange(shape[0], dtype=np.int64)
    for index, profile in enumerate(geometry.profiles):
        for start in order(profile):
            taken = window(profile, start)
            free = masks[(masks & taken) == 0]
            found = np.round(cost(free, free | taken), DECIMALS)
            cheaper = found < best[free, index]
            best[free[cheaper], index] = found[cheaper]
            starts[free[cheaper], index] = start
    best.setflags(write=False)
    starts.setflags(write=False)
    return MigPlacements(best, starts, np.zeros(geometry.grid + 1) if company is None else company)


class MigPolicy:
    """Chooses the GPU with the least cost for an instance; of equal ones the first."""

    def __init__(self, placements: Callable[[Mapping[str, float]], MigPlacements], mix: Mapping[str, float]):
        self._placements = placements
        self.retarget(mix)

    def retarget(self, mix: Mapping[str, float]) -> None:
        """Expect pods by this `mix` from now on."""
        tables = self._placements(mix)
        # Costs are read for every GPU, the start for one.
        self._costs = list(tables.cost.T)
        self._starts = tables.start
        self._company = tables.company

    def choose(self, masks: PerGpu, instances: PerGpu, profile: int) -> Placement | None:
        """The GPU and the start for one more instance of the geometry's `profile`, by index. `masks`
        `[gpu]` are the occupied units of each GPU, all units if the GPU can take no such profile, and
        `instances` the number of instances there. None if it fits on no GPU."""
        costs = np.round(self._costs[profile].take(masks) + self._company.take(instances), DECIMALS)
        gpu = int(costs.argmin())
        if costs[gpu] == np.inf:
            return None
        return gpu, int(self._starts[masks[gpu], profile])

    def fits(self, masks: PerGpu, profile: int) -> bool:
        """Whether any of these GPUs takes an instance."""
        return bool((self._costs[profile].take(masks) < np.inf).any())


class RoundRobin(MigPolicy):
    """Chooses the next GPU with a free start after the last chosen one."""

    _next = 0

    def choose(self, masks: PerGpu, instances: PerGpu, profile: int) -> Placement | None:
        gpus = np.flatnonzero(self._starts[:, profile].take(masks) >= 0)
        if not len(gpus):
            return None
        gpu = int(gpus[np.searchsorted(gpus, self._next) % len(gpus)])
        self._next = gpu + 1
        return gpu, int(self._starts[masks[gpu], profile])


def default(geometry: Geometry, mix: Mapping[str, float]) -> MigPolicy:
    """The product's placement: the least loss of future demand."""

    def placements(mix: Mapping[str, float]) -> MigPlacements:
        worth = mig_worth(geometry, mix)
        return least_cost(geometry, worth.cost, company=worth.company)

    return MigPolicy(placements, mix)


def first_fit(geometry: Geometry, mix: Mapping[str, float], choice: type[MigPolicy] = MigPolicy) -> MigPolicy:
    """The lowest free start, on the first GPU or by another `choice`: every placement costs the same."""
    placements = least_cost(geometry, lambda before, after: np.zeros(len(after)))
    return choice(lambda mix: placements, mix)


def best_fit(geometry: Geometry, mix: Mapping[str, float]) -> MigPolicy:
    """The fullest GPU that fits, and its best index: the start that large profiles need least."""

    def free_units(before: Masks, after: Masks) -> Floats:
        free: Floats = (geometry.grid - np.bitwise_count(after)).astype(np.float64)
        return free

    def best_index(profile: Profile) -> Iterable[int]:
        # For shapes without an order, from the highest start down.
        return _ORDERS.get((profile.size, profile.starts), profile.starts[::-1])

    placements = least_cost(geometry, free_units, best_index)
    return MigPolicy(lambda mix: placements, mix)


def fgd(geometry: Geometry, mix: Mapping[str, float]) -> MigPolicy:
    """FGD (Weng et al., USENIX ATC'23) on MIG masks: the least growth of the fragmentation for `mix`."""

    def placements(mix: Mapping[str, float]) -> MigPlacements:
        unusable = fragmentation(geometry, mix)
        return least_cost(geometry, lambda before, after: unusable[after] - unusable[before])

    return MigPolicy(placements, mix)


def fragmentation(geometry: Geometry, mix: Mapping[str, float]) -> Floats:
    """The free units that pods of `mix` cannot use, averaged over its profiles, `[mask]`."""
    masks = np.arange(1 << geometry.grid, dtype=np.int64)
    usable = geometry.grid * usable_units(geometry, mix, exponent=1.0)
    unusable: Floats = geometry.grid - np.bitwise_count(masks) - usable
    return unusable


def mfi(geometry: Geometry, mix: Mapping[str, float]) -> MigPolicy:
    """MFI, minimum fragmentation increment (arXiv 2511.18906), which does not depend on the workload."""
    score = fragmentation_score(geometry)
    placements = least_cost(geometry, lambda before, after: score[after] - score[before])
    return MigPolicy(lambda mix: placements, mix)


def fragmentation_score(geometry: Geometry) -> Floats:
    """The score of MFI for every occupancy mask, `[mask]`; profiles of one shape count once. The sum, over
    the profiles that are no larger than the free units and over the starts of each, of the profile's size
    where that window overlaps an occupied unit."""
    masks = np.arange(1 << geometry.grid, dtype=np.int64)
    free = geometry.grid - np.bitwise_count(masks)
    score = np.zeros(len(masks))
    for profile in (geometry.profiles[index] for index in shapes(geometry)):
        blocked = sum(((masks & window(profile, start)) != 0).astype(np.int64) for start in profile.starts)
        score += np.where(profile.size <= free, profile.size * blocked, 0)
    return score


MIG_POLICIES: Mapping[str, Callable[[Geometry, Mapping[str, float]], MigPolicy]] = {
    "best-fit": best_fit,
    "default": default,
    "fgd": fgd,
    "first-fit": first_fit,
    "mfi": mfi,
    "round-robin": partial(first_fit, choice=RoundRobin),
}
