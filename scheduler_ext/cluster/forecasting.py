"""Keeps an extender's forecast in step with the pods that come, in a thread of its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event, Lock, Thread

from scheduler_ext.cluster.rate_limiter import RateLimiter
from scheduler_ext.core.cache.inventory import Inventory
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.extender.expecting import Expecting
from scheduler_ext.extender.extender import Extender

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0


class Forecasting:
    """Looks now and then whether the pods that come ask otherwise than was expected."""

    def __init__(
        self,
        inventory: Inventory,
        lock: Lock,
        extender: Extender,
        rate_limiter: RateLimiter,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inventory = inventory
        self._lock = lock
        self._extender = extender
        self._rate_limiter = rate_limiter
        self._monotonic = monotonic
        self._expecting = Expecting()
        self._made_at = monotonic()
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="forecast", daemon=True)

    @property
    def age_s(self) -> float:
        """How old the forecast is."""
        return self._monotonic() - self._made_at

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Look no longer."""
        self._stopped.set()

    def join(self, wait_s: float) -> None:
        """Wait so long for the end of it."""
        if self._thread.is_alive():
            self._thread.join(wait_s)

    def look(self) -> None:
        """Have another forecast made where it is time for one."""
        now = self._monotonic()
        with self._lock:
            workload = self._expecting.due(self._inventory.arrivals, now)
        if workload is not None:
            self._extender.expect(self._forecast(workload))
            self._made_at = now

    def _forecast(self, workload: Workload) -> Forecast:
        """The tables, kind by kind: each is cached, so that the last step only puts them together."""
        snapshot = self._extender.snapshot
        kinds = snapshot.kinds if snapshot is not None else ()
        for kind in kinds:
            if self._stopped.is_set():
                break
            with self._rate_limiter.turn():
                Forecast(workload, (kind,))
        with self._rate_limiter.turn():
            return Forecast(workload, kinds)

    def _run(self) -> None:
        while not self._stopped.wait(_LOOK_EVERY_S):
            try:
                self.look()
            except Exception:
                log.exception("no forecast of the pods to come could be made; the last one stays")
