"""Best fit with best index: the fullest GPU that fits, and the start that large profiles miss the least.

The orders of starts are those of arXiv 2409.06646 for seven slices on eight units: 3g at 4 before 0, 2g at
4, 0, 2, and 1g at 6, 4, 5 before the rest. Shapes that it does not name go from the highest start down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from scheduler_ext.core.forecast.mig_value import Masks, least_cost
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.gpu.mig_profile import Profile
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.sim.mig.mig_policy import CheapestGpu, MigPolicy

# By size and starts.
_ORDERS: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = {
    (4, (0, 4)): (4, 0),
    (2, (0, 2, 4)): (4, 0, 2),
    (2, (0, 2, 4, 6)): (6, 4, 0, 2),
    (1, (0, 1, 2, 3, 4, 5, 6)): (6, 4, 5, 0, 1, 2, 3),
}


def best_index(profile: Profile) -> Iterable[int]:
    """The starts of a profile, the best first."""
    return _ORDERS.get((profile.size, profile.starts), profile.starts[::-1])


def policy(geometry: Geometry, mix: Mapping[str, float]) -> MigPolicy:
    """A placement costs the units that stay free on its GPU."""

    def free_units(before: Masks, after: Masks) -> Floats:
        free: Floats = (geometry.grid - np.bitwise_count(after)).astype(np.float64)
        return free

    placements = least_cost(geometry, free_units, best_index)
    return CheapestGpu(lambda mix: placements, mix)
