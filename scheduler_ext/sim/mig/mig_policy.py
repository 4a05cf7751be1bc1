"""The interface of a MIG placement policy, and its usual form: the cheapest GPU by a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.forecast.mig_value import MigPlacements
from scheduler_ext.core.gpu.mig_geometry import Geometry

OccupiedMasks = npt.NDArray[np.int64]
Placement = tuple[int, int]


class MigPolicy(Protocol):
    """Chooses a GPU and a start for one instance, from the occupied units."""

    def choose(self, masks: OccupiedMasks, profile: int) -> Placement | None:
        """The GPU and the start for one more instance of the geometry's ``profile``, by index.

        ``masks`` ``[gpu]`` are the occupied units of each GPU, all units if the GPU can take no such profile.
        None if it fits on no GPU.
        """

    def retarget(self, mix: Mapping[str, float]) -> None:
        """Expect pods by this ``mix`` from now on."""


# The type of `policy` in the module of a policy.
PolicyFactory = Callable[[Geometry, Mapping[str, float]], MigPolicy]


class CheapestGpu:
    """The GPU with the least cost for the instance; of equal ones the first."""

    def __init__(self, placements: Callable[[Mapping[str, float]], MigPlacements], mix: Mapping[str, float]):
        self._placements = placements
        self.retarget(mix)

    def retarget(self, mix: Mapping[str, float]) -> None:
        tables = self._placements(mix)
        # Costs are read for every GPU, the start for one.
        self._costs = list(tables.cost.T)
        self._starts = tables.start

    def choose(self, masks: OccupiedMasks, profile: int) -> Placement | None:
        costs = self._costs[profile].take(masks)
        gpu = int(costs.argmin())
        if costs[gpu] == np.inf:
            return None
        return gpu, int(self._starts[masks[gpu], profile])
