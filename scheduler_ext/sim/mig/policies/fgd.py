"""Fragmentation gradient descent (Weng et al., USENIX ATC'23) with its measure taken over MIG masks.

A GPU's fragmentation for a profile is what is free less what instances of it could still take.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduler_ext.core.forecast.mig_value import MigPlacements, least_cost, room_worth
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.sim.mig.mig_policy import CheapestGpu, MigPolicy


def fragmentation(geometry: Geometry, mix: Mapping[str, float]) -> Floats:
    """The free units that pods of ``mix`` cannot use, in the mean over its profiles, ``[mask]``."""
    masks = np.arange(1 << geometry.grid, dtype=np.int64)
    usable = geometry.grid * room_worth(geometry, mix, exponent=1.0)
    unusable: Floats = geometry.grid - np.bitwise_count(masks) - usable
    return unusable


def policy(geometry: Geometry, mix: Mapping[str, float]) -> MigPolicy:
    """A placement costs what it adds to the fragmentation that pods of ``mix`` meet."""

    def placements(mix: Mapping[str, float]) -> MigPlacements:
        unusable = fragmentation(geometry, mix)
        return least_cost(geometry, lambda before, after: unusable[after] - unusable[before])

    return CheapestGpu(placements, mix)
