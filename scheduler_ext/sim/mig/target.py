"""The demand that a policy knows: the mix itself, or a forecast from the pods so far."""

from __future__ import annotations

from scheduler_ext.core.cache.observed_demand import HALF_LIFE_PODS, UNKNOWN_PODS
from scheduler_ext.core.forecast.mig_value import expected_mix
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.request.pod_kinds import SeenPods, TaskClass
from scheduler_ext.sim.mig.mig_policy import MigPolicy

TARGETS = ("mix", "online")

# The first pods change the forecast much, later ones little; the tables are not rebuilt for every pod.
_FIRST_UPDATE_PODS = 16
_UPDATE_GROWTH = 1.25
_LONGEST_WAIT_PODS = 500


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
