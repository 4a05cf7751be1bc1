"""When a forecast no longer tells what pods ask, so that it is time for another one."""

from __future__ import annotations

import math

from scheduler_ext.core.cache.observed_demand import ObservedDemand
from scheduler_ext.core.request.pod_kinds import UNKNOWN, Workload

# At most one in this time: it keeps a core busy for a part of a second.
EVERY_S = 60.0
# By less than this no placement that is worth it changes.
DRIFT = 0.05


class Expecting:
    """What is expected of the pods to come, and since when; the caller's clock counts, in seconds."""

    def __init__(self) -> None:
        self.workload = UNKNOWN
        self._counted = 0
        self._looked_at = -math.inf

    def due(self, arrivals: ObservedDemand, now: float) -> Workload | None:
        """What to expect from now on; None for what is expected already, or nearly."""
        if now - self._looked_at < EVERY_S or arrivals.count == self._counted:
            return None
        self._looked_at, self._counted = now, arrivals.count
        workload = arrivals.workload()
        if workload.distance(self.workload) <= DRIFT:
            return None
        self.workload = workload
        return workload
