"""The base of background threads, and turns for their work, which leave the interpreter to requests."""

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterator
from threading import Event, Lock, Thread, current_thread

log = logging.getLogger(__name__)

# The length of a pause, in processor times of the turn before it: a request seldom meets two turns.
_PAUSE = 2.0
# The longest pause, so that a stop stays prompt.
_LONGEST_S = 0.5


class Background:
    """Work in daemon threads: a subclass defines `run`, which returns soon after `stopped` is set. A
    thread that dies of an exception logs its name and the traceback; the rest of the process goes on."""

    def __init__(self, name: str, threads: int = 1) -> None:
        names = [name] if threads == 1 else [f"{name}-{i}" for i in range(threads)]
        self.stopped = Event()
        self._threads = [Thread(target=self._run_logged, name=each, daemon=True) for each in names]

    def run(self) -> None:
        """The work of one thread."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin the work."""
        for thread in self._threads:
            thread.start()

    def stop(self, wait_s: float = 0.0) -> None:
        """End the work, and wait up to `wait_s` for each thread."""
        self.stopped.set()
        if wait_s:
            self.join(wait_s)

    def join(self, wait_s: float) -> None:
        """Wait up to `wait_s` for each thread that was started."""
        for thread in self._threads:
            if thread.is_alive():
                thread.join(wait_s)

    @property
    def is_alive(self) -> bool:
        """Whether a thread is working."""
        return any(thread.is_alive() for thread in self._threads)

    def _run_logged(self) -> None:
        try:
            self.run()
        except BaseException:
            log.critical("thread %s died of an unexpected error", current_thread().name, exc_info=True)


class OnDemand(Background):
    """As Background, but the threads begin with the first call of `need`: most processes never need some."""

    def __init__(self, name: str, threads: int = 1) -> None:
        super().__init__(name, threads)
        self._beginning = Lock()
        self._begun = False

    def start(self) -> None:
        """Begin when there is work."""

    def need(self) -> None:
        """There is work."""
        with self._beginning:
            begins = not self._begun and not self.stopped.is_set()
            self._begun |= begins
        if begins:
            super().start()


class RateLimiter:
    """One worker at a time, with a pause between turns while `served` says that requests may be waiting.
    Reading a large list keeps Python's interpreter busy for seconds. Three lists read at once, after an
    outage of the API server, made some answers ten times as slow. The pause follows the processor's time,
    because a turn that waits for the processor does not use it; and the next turn waits for what is left
    of it, so that a list requests its next page in the meantime."""

    def __init__(self, served: Callable[[], bool]) -> None:
        self._served = served
        self._lock = Lock()
        # When the pause after the last turn ends, monotonic.
        self._rested_at = -math.inf

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Do a small piece of work."""
        with self._lock:
            if self._served() and (left_s := self._rested_at - time.monotonic()) > 0:
                time.sleep(left_s)
            started = time.thread_time()
            yield
            used_s = time.thread_time() - started
            self._rested_at = time.monotonic() + min(_PAUSE * used_s, _LONGEST_S)
