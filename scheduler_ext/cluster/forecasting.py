"""Keeps an extender's forecast in step with observed demand, in a thread of its own."""

import logging
import time
from collections.abc import Callable
from threading import Lock

from scheduler_ext.background import Background
from scheduler_ext.cluster.rate_limiter import RateLimiter
from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.extender.expecting import Expecting
from scheduler_ext.extender.extender import Extender

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0


class Forecasting(Background):
    """Checks regularly whether new pods ask something else than the forecast expects."""

    def __init__(
        self,
        cache: Cache,
        lock: Lock,
        extender: Extender,
        rate_limiter: RateLimiter,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("forecast")
        self._cache = cache
        self._lock = lock
        self._extender = extender
        self._rate_limiter = rate_limiter
        self._monotonic = monotonic
        self._expecting = Expecting()
        self._made_at = monotonic()

    @property
    def age_s(self) -> float:
        """The age of the forecast."""
        return self._monotonic() - self._made_at

    def look(self) -> None:
        """Make another forecast where one is due."""
        now = self._monotonic()
        with self._lock:
            workload = self._expecting.due(self._cache.demand, now)
        if workload is not None:
            self._extender.expect(self._forecast(workload))
            self._made_at = now

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
