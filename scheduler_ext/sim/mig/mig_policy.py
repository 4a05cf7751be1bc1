"""The interface of a MIG placement policy, its usual form (the cheapest GPU by a table), and its forecast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.cache.observed_demand import HALF_LIFE_PODS, UNKNOWN_PODS
from scheduler_ext.core.forecast.mig_value import expected_mix
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.request.pod_kinds import SeenPods, TaskClass
from scheduler_ext.sim.mig.mig_placements import MigPlacements

OccupiedMasks = npt.NDArray[np.int64]
Placement = tuple[int, int]
TARGETS = ("mix", "online")

# The first pods change the forecast much, later ones little; the tables are not rebuilt for every pod.
_FIRST_UPDATE_PODS = 16
_UPDATE_GROWTH = 1.25
_LONGEST_WAIT_PODS = 500


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


class OnlineTarget:
    """Counts arriving pods, as the server does, and retargets a policy at intervals."""

    def __init__(self, policy: MigPolicy, geometry: Geometry) -> None:
        self._policy = policy
        self._geometry = geometry
        self._tasks = [TaskClass(mig=((profile.name, 1),)) for profile in geometry.profiles]
        self._seen = SeenPods(HALF_LIFE_PODS, UNKNOWN_PODS)
        self._next = _FIRST_UPDATE_PODS

    def arrived(self, profile: int) -> None:
        """Count a pod that requests the geometry's ``profile``, by index."""
        self._seen.saw(self._tasks[profile])
        if self._seen.seen >= self._next:
            self._policy.retarget(expected_mix(self._geometry, self._seen.workload()))
            self._next += min(max(int(self._next * (_UPDATE_GROWTH - 1)), 1), _LONGEST_WAIT_PODS)
