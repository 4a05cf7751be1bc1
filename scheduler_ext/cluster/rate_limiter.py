"""Background work in turns, with rests, so that requests find the interpreter free.

Reading a large list keeps Python's interpreter busy for seconds. Three lists read at once, after an API
server was away, made some answers ten times as slow.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from threading import Lock

# Rest to work. A request meets a turn now and then, but seldom two.
_REST = 2.0
# A rest ends in time for a stop to be prompt.
_LONGEST_S = 0.5


class RateLimiter:
    """One worker at a time, which rests after its turn while ``served`` says that somebody may be waiting."""

    def __init__(self, served: Callable[[], bool]) -> None:
        self._served = served
        self._lock = Lock()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Work: as little in one turn as can be."""
        with self._lock:
            started = time.monotonic()
            yield
            if self._served():
                time.sleep(min(_REST * (time.monotonic() - started), _LONGEST_S))
