"""Background work in turns with pauses, so that requests find the interpreter free. Reading a large list
keeps Python's interpreter busy for seconds. Three lists read at once, after an outage of the API server, made
some answers ten times as slow."""

import contextlib
import time
from collections.abc import Callable, Iterator
from threading import Lock

# The length of a pause, in lengths of the turn before it: a request seldom meets two turns.
_PAUSE = 2.0
# The longest pause, so that a stop stays prompt.
_LONGEST_S = 0.5


class RateLimiter:
    """One worker at a time, with a pause after its turn while ``served`` says that requests may be
    waiting."""

    def __init__(self, served: Callable[[], bool]) -> None:
        self._served = served
        self._lock = Lock()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Do a small piece of work."""
        with self._lock:
            started = time.monotonic()
            yield
            if self._served():
                time.sleep(min(_PAUSE * (time.monotonic() - started), _LONGEST_S))
