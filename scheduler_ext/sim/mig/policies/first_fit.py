"""First fit: the first GPU with a free start, and its lowest one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduler_ext.core.forecast.mig_value import least_cost
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.sim.mig.mig_policy import CheapestGpu, MigPolicy


def policy(geometry: Geometry, mix: Mapping[str, float]) -> MigPolicy:
    """Every placement costs the same."""
    placements = least_cost(geometry, lambda before, after: np.zeros(len(after)))
    return CheapestGpu(lambda mix: placements, mix)
