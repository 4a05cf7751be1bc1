"""Detects that a forecast no longer matches observed demand, so that it is time for another one."""

from __future__ import annotations

import math

from scheduler_ext.core.cache.observed_demand import ObservedDemand
from scheduler_ext.core.request.pod_kinds import UNKNOWN, Workload

# At most one per this time, because it keeps a core busy for a part of a second.
EVERY_S = 60.0
# A smaller drift changes no placement noticeably.
DRIFT = 0.05


class Expecting:
    """The expected workload, and since when; times come from the caller's clock, in seconds."""

    def __init__(self) -> None:
        self.workload = UNKNOWN
        self._counted = 0
        self._looked_at = -math.inf

    def due(self, arrivals: ObservedDemand, now: float) -> Workload | None:
        """The workload to expect from now on; None if the present one is the same or close."""
        if now - self._looked_at < EVERY_S or arrivals.seen == self._counted:
            return None
        self._looked_at, self._counted = now, arrivals.seen
        workload = arrivals.workload()
        if workload.distance(self.workload) <= DRIFT:
            return None
        self.workload = workload
        return workload
