"""Whether the API server answers, shared by all requests of one process. While the server is away, the
requests that wait for it take turns: about one connection attempt per second, however many wait. The first
answer ends the wait of all."""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

# A request without an answer means that the server is away if it has sent nothing else for this long. Where
# other requests are answered, only that request failed.
QUIET_S = 2.0
# The interval of attempts to reach a server that is away, over all requests.
PROBE_S = 1.0


@dataclass(eq=False)
class Availability:
    """Safe to use from several threads; all times are by `monotonic`."""

    monotonic: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random
    # Whether the server has sent nothing since a request stayed unanswered.
    away: bool = field(default=False, init=False)
    # When the last outage was noticed and when it ended, and the number of outages.
    away_since: float = field(default=-math.inf, init=False)
    returned_at: float = field(default=-math.inf, init=False)
    returns: int = field(default=0, init=False)
    # When a lost watch was last answered again.
    watch_back_at: float = field(default=-math.inf, init=False)
    _responded_at: float = field(default=-math.inf, init=False)
    _turn_at: float = field(default=-math.inf, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def responded(self) -> None:
        """The server sent the head of an answer, or a piece of a stream."""
        self._responded_at = now = self.monotonic()
        if not self.away:
            return
        with self._lock:
            if self.away:
                self.away = False
                self._turn_at = -math.inf
                self.returned_at = now
                self.returns += 1

    def unanswered(self) -> None:
        """A request got no answer."""
        with self._lock:
            now = self.monotonic()
            if not self.away and now - self._responded_at >= QUIET_S:
                self.away = True
                self.away_since = now

    def watch_is_back(self) -> None:
        """A lost watch is answered again."""
        self.watch_back_at = self.monotonic()

    def turn_s(self) -> float:
        """Take the next turn to reach a server that is away; returns the seconds until then."""
        with self._lock:
            now = self.monotonic()
            self._turn_at = max(now, self._turn_at) + PROBE_S * (0.5 + self.chance() / 2)
            return self._turn_at - now
