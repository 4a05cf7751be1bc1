"""When a request to the API server is repeated after a failure.

The wait for a server that answers with errors grows from try to try, and is at least the pause that it asks
for. A server that is away is tried at short intervals, in turns. A wait ends early when an outage that others
shared is over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from threading import Event

from scheduler_ext.cluster.client.availability import Availability
from scheduler_ext.cluster.client.backoff import Backoff
from scheduler_ext.cluster.client.transport import RefusedError, UnreachableError

# How often a wait checks whether it is over. It also spreads requests that waited for the same event.
LOOK_S = 0.25
# The return of another watch shortens a wait after an error at most this often: unstable watches must not
# keep a failing server busy.
EARLY_EVERY_S = 10.0


class Retry:
    """The wait of one kind of request; one thread at a time.

    With ``probes``, it takes turns with others to find out whether a server that is away is back.
    """

    def __init__(
        self,
        server: Availability,
        backoff: Backoff,
        *,
        probes: bool = True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._backoff = backoff
        self._probes = probes
        self._monotonic = monotonic
        self._failed_at = self._until = -math.inf
        self._away = False
        # Whether the server asked for a pause, which nothing shortens.
        self._asked_for = False
        self._early_at = -math.inf

    def failed(self, error: Exception) -> None:
        """A try failed: the wait for the next one begins."""
        was_away, self._away = self._away, isinstance(error, UnreachableError) and self._server.away
        self._failed_at = self._monotonic()
        retry_after_s = error.retry_after_s if isinstance(error, RefusedError) else None
        self._asked_for = retry_after_s is not None
        if self._away and self._probes:
            self._until = self._failed_at + self._server.turn_s()
            return
        if was_away and isinstance(error, RefusedError):
            # A server that has just started: the length of its absence does not matter for its errors.
            self._backoff.reset()
        self._until = self._failed_at + self._backoff.wait_s(retry_after_s)

    def reset(self) -> None:
        """A try succeeded: the next failure counts as the first."""
        self._until = -math.inf
        self._away = False
        self._backoff.reset()

    def left_s(self) -> float:
        """Seconds until the next try; 0 when it is due."""
        now = self._monotonic()
        if now >= self._until:
            return 0.0
        if self._away:
            over = self._server.returned_at >= self._failed_at
        else:
            over = (
                not self._asked_for
                and self._server.watch_back_at >= self._failed_at
                and now >= self._early_at + EARLY_EVERY_S
            )
            if over:
                self._early_at = now
        if over:
            self._until = now
            return 0.0
        return self._until - now

    def wait(self, stopped: Event) -> bool:
        """Wait for the next try; False where ``stopped`` was set instead."""
        while (left_s := self.left_s()) > 0:
            if stopped.wait(min(left_s, LOOK_S)):
                return False
        return not stopped.is_set()
