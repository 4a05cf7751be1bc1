"""What a policy is told of the pods to come: their mix, or what those seen so far let expect."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_ext.core.mig_value import mig_mix
from scheduler_ext.core.workload import SeenPods, TaskClass
from scheduler_ext.sim.mig.policy import MigPolicy

TARGETS = ("mix", "online")

# A pod counts half after so many others: with a mix of six profiles parts are then known to about a
# hundredth, and a drift is followed within a day of a cluster that starts a pod a minute.
HALF_LIFE_PODS = 1000.0
# Soon after the start each pod tells much, later little; tables need not be new for every one.
_FIRST_UPDATE_PODS = 16
_UPDATE_GROWTH = 1.25
_LONGEST_WAIT_PODS = 500


class OnlineTarget:
    """Counts the pods that arrive and retargets a policy now and then."""

    def __init__(self, policy: MigPolicy, profiles: tuple[str, ...]) -> None:
        self._policy = policy
        self._tasks = [TaskClass(mig=((name, 1),)) for name in profiles]
        self._seen = SeenPods(HALF_LIFE_PODS)
        self._next = _FIRST_UPDATE_PODS

    def arrived(self, profile: int) -> None:
        """A pod asked for the geometry's ``profile``, by index."""
        self._seen.saw(self._tasks[profile])
        if self._seen.seen >= self._next:
            mix: Mapping[str, float] = mig_mix(self._seen.workload())
            self._policy.retarget(mix)
            self._next += min(max(int(self._next * (_UPDATE_GROWTH - 1)), 1), _LONGEST_WAIT_PODS)
