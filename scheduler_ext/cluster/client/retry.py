"""When a request to the API server is repeated after a failure. The wait for a server that answers with
errors grows from try to try, unless it asks for a pause. A server that is away is tried at short intervals,
in turns. A wait ends early when an outage that others shared is over."""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

from scheduler_ext.cluster.client.availability import Availability
from scheduler_ext.cluster.client.transport import RefusedError, UnreachableError

# How often a wait checks whether it is over. It also spreads requests that waited for the same event.
LOOK_S = 0.25
# The return of another watch shortens a wait after an error at most this often: unstable watches must not
# keep a failing server busy.
EARLY_EVERY_S = 10.0
# The longest pause that a server can ask for.
_LONGEST_S = 300.0


@dataclass(eq=False)
class Backoff:
    """Doubles from try to try; each wait is cut by up to a half at random, to spread many clients."""

    least_s: float = 0.5
    most_s: float = 30.0
    chance: Callable[[], float] = random.random
    _failures: int = field(default=0, init=False)

    def wait_s(self, retry_after_s: float | None = None) -> float:
        """Seconds until the next try. A pause that the server asks for does not grow: the server knows best
        when it can answer, and one that has just started asks for a second several times."""
        if retry_after_s is not None:
            # Spread clients that were given the same time.
            return max(self.least_s, min(retry_after_s, _LONGEST_S)) * (1 + self.chance() / 4)
        longest = min(self.most_s, self.least_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return longest * (0.5 + self.chance() / 2)

    def reset(self) -> None:
        """After a success, the next failure counts as the first."""
        self._failures = 0


@dataclass(eq=False)
class Retry:
    """The wait of one kind of request; one thread at a time. With `probes`, it takes turns with others to
    find out whether a server that is away is back."""

    server: Availability
    backoff: Backoff
    probes: bool = field(default=True, kw_only=True)
    monotonic: Callable[[], float] = field(default=time.monotonic, kw_only=True)
    _failed_at: float = field(default=-math.inf, init=False)
    _until: float = field(default=-math.inf, init=False)
    _away: bool = field(default=False, init=False)
    # Whether the server asked for a pause, which nothing shortens.
    _asked_for: bool = field(default=False, init=False)
    _early_at: float = field(default=-math.inf, init=False)

    def failed(self, error: Exception) -> None:
        """A try failed: the wait for the next one begins."""
        was_away, self._away = self._away, isinstance(error, UnreachableError) and self.server.away
        self._failed_at = self.monotonic()
        retry_after_s = error.retry_after_s if isinstance(error, RefusedError) else None
        self._asked_for = retry_after_s is not None
        if self._away and self.probes:
            self._until = self._failed_at + self.server.turn_s()
            return
        if was_away and isinstance(error, RefusedError):
            # A server that has just started: the length of its absence does not matter for its errors.
            self.backoff.reset()
        self._until = self._failed_at + self.backoff.wait_s(retry_after_s)

    def reset(self) -> None:
        """A try succeeded: the next failure counts as the first."""
        self._until = -math.inf
        self._away = False
        self.backoff.reset()

    def left_s(self) -> float:
        """Seconds until the next try; 0 when it is due."""
        now = self.monotonic()
        if now >= self._until:
            return 0.0
        if self._away:
            over = self.server.returned_at >= self._failed_at
        elif over := (
            not self._asked_for
            and self.server.watch_back_at >= self._failed_at
            and now >= self._early_at + EARLY_EVERY_S
        ):
            self._early_at = now
        if over:
            self._until = now
        return self._until - now

    def wait(self, stopped: Event) -> bool:
        """Wait for the next try; False if `stopped` was set instead."""
        while (left_s := self.left_s()) > 0:
            if stopped.wait(min(left_s, LOOK_S)):
                return False
        return not stopped.is_set()
