"""MFI, minimum fragmentation increment (arXiv 2511.18906): the least growth of a fragmentation score.

The score of a GPU is the sum, over the profiles no larger than what is free and over each one's starts, of
the profile's size where that window overlaps an occupied unit. It knows no workload.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduler_ext.core.forecast.mig_value import least_cost, shapes
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.gpu.mig_profile import window
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.sim.mig.mig_policy import CheapestGpu, MigPolicy


def fragmentation_score(geometry: Geometry) -> Floats:
    """The score of every occupancy mask, ``[mask]``; forms of one shape count once."""
    masks = np.arange(1 << geometry.grid, dtype=np.int64)
    free = geometry.grid - np.bitwise_count(masks)
    score = np.zeros(len(masks))
    for profile in (geometry.profiles[index] for index in shapes(geometry)):
        blocked = sum(((masks & window(profile, start)) != 0).astype(np.int64) for start in profile.starts)
        score += np.where(profile.size <= free, profile.size * blocked, 0)
    return score


def policy(geometry: Geometry, mix: Mapping[str, float]) -> MigPolicy:
    """A placement costs what it adds to the score."""
    score = fragmentation_score(geometry)
    placements = least_cost(geometry, lambda before, after: score[after] - score[before])
    return CheapestGpu(lambda mix: placements, mix)
