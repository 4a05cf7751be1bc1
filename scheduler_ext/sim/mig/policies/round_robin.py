"""Round robin: the next GPU with a free start after the last one that was chosen, and its lowest one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduler_ext.core.forecast.mig_value import least_cost
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.sim.mig.mig_policy import MigPolicy, OccupiedMasks, Placement


class _RoundRobin:
    def __init__(self, geometry: Geometry) -> None:
        self._starts = least_cost(geometry, lambda before, after: np.zeros(len(after))).start
        self._next = 0

    def retarget(self, mix: Mapping[str, float]) -> None:
        """It asks for no target."""

    def choose(self, masks: OccupiedMasks, profile: int) -> Placement | None:
        fits = self._starts[:, profile].take(masks) >= 0
        gpu = self._next + int(fits[self._next :].argmax())
        if not fits[gpu]:
            gpu = int(fits.argmax())
            if not fits[gpu]:
                return None
        self._next = (gpu + 1) % len(masks)
        return gpu, int(self._starts[masks[gpu], profile])


def policy(geometry: Geometry, mix: Mapping[str, float]) -> MigPolicy:
    """Starts at the first GPU."""
    return _RoundRobin(geometry)
