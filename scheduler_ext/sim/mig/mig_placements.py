"""The best start of a MIG instance beside every occupancy mask, for policies that choose the start."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.forecast.mig_value import DECIMALS, Masks
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.gpu.mig_profile import Profile, window
from scheduler_ext.core.node.columns import Floats


@dataclass(frozen=True, eq=False)
class MigPlacements:
    """The best start of every profile beside every occupancy mask, and its cost; ``[mask, profile]``. Where
    no start fits, ``cost`` is infinite and ``start`` is -1. Profiles are in the geometry's order, and the
    column of a profile is contiguous, so that ``cost[:, profile][masks]`` reads little memory. A mask holds
    neither max_instances nor media engines: callers that know them exclude such GPUs."""

    cost: Floats
    start: npt.NDArray[np.int8]


def _ascending(profile: Profile) -> Iterable[int]:
    return profile.starts


def least_cost(
    geometry: Geometry,
    cost: Callable[[Masks, Masks], Floats],
    order: Callable[[Profile], Iterable[int]] = _ascending,
) -> MigPlacements:
    """The cheapest start for every mask and profile; of equally cheap starts the first in ``order``. ``cost``
    takes the masks before and after an instance is created, each ``[case]``."""
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
    return MigPlacements(best, starts)
