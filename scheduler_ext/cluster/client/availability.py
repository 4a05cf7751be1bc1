"""Whether the API server answers, shared by all requests of one process.

While the server is away, the requests that wait for it take turns: about one connection attempt per second,
however many wait. The first answer ends the wait of all.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from threading import Lock

# A request without an answer means that the server is away if it has sent nothing else for this long. Where
# other requests are answered, only that request failed.
QUIET_S = 2.0
# The interval of attempts to reach a server that is away, over all requests.
PROBE_S = 1.0


class Availability:
    """Safe to use from several threads; all times are by ``monotonic``."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._monotonic = monotonic
        self._chance = chance
        self._lock = Lock()
        self._heard_at = -math.inf
        self._is_away = False
        self._turn_at = -math.inf
        # When the last outage was noticed and when it ended, and the number of outages.
        self.away_since = -math.inf
        self.returned_at = -math.inf
        self.returns = 0
        # When a lost watch was last answered again.
        self.watch_back_at = -math.inf

    @property
    def away(self) -> bool:
        """Whether the server has sent nothing since a request stayed unanswered."""
        return self._is_away

    def heard(self) -> None:
        """The server sent the head of an answer, or a piece of a stream."""
        self._heard_at = now = self._monotonic()
        if not self._is_away:
            return
        with self._lock:
            if self._is_away:
                self._is_away = False
                self._turn_at = -math.inf
                self.returned_at = now
                self.returns += 1

    def unanswered(self) -> None:
        """A request got no answer."""
        with self._lock:
            now = self._monotonic()
            if not self._is_away and now - self._heard_at >= QUIET_S:
                self._is_away = True
                self.away_since = now

    def watch_is_back(self) -> None:
        """A lost watch is answered again."""
        self.watch_back_at = self._monotonic()

    def turn_s(self) -> float:
        """Take the next turn to reach a server that is away; returns the seconds until then."""
        with self._lock:
            now = self._monotonic()
            self._turn_at = max(now, self._turn_at) + PROBE_S * (0.5 + self._chance() / 2)
            return self._turn_at - now
