"""The base of all background threads: started once, stopped by an event, and logged when they die."""

import logging
from threading import Event, Thread, current_thread

log = logging.getLogger(__name__)


class Background:
    """Work in daemon threads: a subclass defines ``run``, which returns soon after ``stopped`` is set. A
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
        """End the work, and wait up to ``wait_s`` for each thread."""
        self.stopped.set()
        if wait_s:
            self.join(wait_s)

    def join(self, wait_s: float) -> None:
        """Wait up to ``wait_s`` for each thread that was started."""
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
        except Exception:
            log.critical("thread %s died of an unexpected error", current_thread().name, exc_info=True)
