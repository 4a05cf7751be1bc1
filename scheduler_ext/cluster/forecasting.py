"""Keeps an extender's forecast in step with observed demand, in a thread of its own."""

import logging
import math
import time
from collections.abc import Callable

from scheduler_ext.background import Background, RateLimiter
from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.core.cache.observed_demand import ObservedDemand
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.request.pod_kinds import UNKNOWN, Workload
from scheduler_ext.extender.extender import Extender

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
# At most one per this time, because it keeps a core busy for a part of a second.
EVERY_S = 60.0
# A smaller drift changes no placement noticeably.
DRIFT = 0.05


class Forecasting(Background):
    """Checks regularly whether new pods ask something else than the forecast expects."""

    def __init__(
        self,
        locked: LockedCache,
        extender: Extender,
        rate_limiter: RateLimiter,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("forecast")
        self._locked = locked
        self._extender = extender
        self._rate_limiter = rate_limiter
        self._monotonic = monotonic
        self._made_at = monotonic()
        self._expected = UNKNOWN
        self._counted = 0
        self._looked_at = -math.inf

    @property
    def age_s(self) -> float:
        """The age of the forecast."""
        return self._monotonic() - self._made_at

    def look(self) -> None:
        """Make another forecast if one is due."""
        now = self._monotonic()
        with self._locked as cache:
            workload = self._due(cache.demand, now)
        if workload is not None:
            self._extender.expect(self._forecast(workload))
            self._made_at = now

    def _due(self, demand: ObservedDemand, now: float) -> Workload | None:
        """The workload to expect from now on; None if the present one is the same or close."""
        if now - self._looked_at < EVERY_S or demand.seen == self._counted:
            return None
        self._looked_at, self._counted = now, demand.seen
        workload = demand.workload()
        if workload.distance(self._expected) <= DRIFT:
            return None
        self._expected = workload
        return workload

    def _forecast(self, workload: Workload) -> Forecast:
        """Computes its tables kind by kind, in turns: each is cached, so that the last turn only combines
        them."""
        snapshot = self._extender.snapshot
        kinds = snapshot.kinds if snapshot is not None else ()
        for kind in kinds:
            if self.stopped.is_set():
                break
            with self._rate_limiter.turn():
                Forecast(workload, (kind,))
        with self._rate_limiter.turn():
            return Forecast(workload, kinds)

    def run(self) -> None:
        while not self.stopped.wait(_LOOK_EVERY_S):
            try:
                self.look()
            except Exception:
                log.exception("the demand forecast could not be renewed; the last one stays")
