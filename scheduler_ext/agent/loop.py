"""The agent's loop: read, report if due, wait."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from scheduler_ext.agent.alive import Pulse
from scheduler_ext.background import Background

if TYPE_CHECKING:
    from scheduler_ext.agent.observer import Observer
    from scheduler_ext.agent.reporter import Reporter

log = logging.getLogger(__name__)

RESTART = 1
"""Exit status that asks the kubelet for a new process."""

# Requests to the API server end by themselves, within half a minute each.
REQUESTS_S = 120.0
# After this long without a GPU, a process that could once read GPUs ends, because a new one may be able to:
# containers lose their device nodes when systemd is reloaded, and only new containers get them back.
GONE_S = 300.0


def run_agent(
    observer: Observer,
    reporter: Reporter,
    interval_s: float,
    stopped: Event,
    clock: Callable[[], float] = time.monotonic,
    pulse: Pulse | None = None,
) -> int:
    """Report one node until stopped; returns the exit status."""
    pulse = pulse or Pulse()
    watchdog = Watchdog(pulse, _give_up)
    watchdog.start()
    worked_at: float | None = None
    begun = False
    problem: str | None = None
    try:
        while not stopped.is_set():
            pulse.beat(REQUESTS_S)
            try:
                node = reporter.node()
                begun = begun or reporter.begin(observer.remember)
                with watchdog:
                    status = observer.observe(node.labels if node is not None else {}, reporter.repaired)
                if observer.problem != problem:
                    problem = observer.problem
                    if problem is None:
                        log.info("GPUs can be used again")
                    else:
                        log.error("no GPU of this node can be used: %s", problem)
                # Without the node's labels, the report would briefly be wrong about how GPUs are shared; on a
                # node where no GPU was ever seen, there is nothing to report.
                if begun and (observer.problem is None or status.devices):
                    pulse.beat(REQUESTS_S)
                    reporter.offer(status)
            except Exception:
                log.exception("nothing was reported in this round; trying again")
            if observer.source.must_restart:
                log.error(
                    "the driver was replaced while this process ran; exiting, to restart with its library"
                )
                return RESTART
            if observer.problem is None:
                worked_at = clock()
            elif worked_at is not None and clock() - worked_at >= GONE_S:
                log.error("no GPU could be read for %g s; exiting, to be restarted", GONE_S)
                return RESTART
            pulse.beat(interval_s)
            stopped.wait(interval_s)
        return 0
    finally:
        with watchdog:
            observer.source.close()
        watchdog.stop()


class Watchdog(Background):
    """Calls `bite` when a step inside its context has not recorded a heartbeat for too long. A driver call
    that hangs cannot be interrupted; only a new process helps. The watchdog needs Python's global lock to
    bite, which a library that hangs while it is loaded keeps: the kubelet's probe covers that case."""

    def __init__(self, pulse: Pulse, bite: Callable[[float], None]) -> None:
        super().__init__("watchdog")
        self._pulse = pulse
        self._bite = bite
        self._inside = False

    def __enter__(self) -> None:
        self._pulse.beat()
        self._inside = True

    def __exit__(self, *_: object) -> None:
        self._inside = False
        self._pulse.beat()

    def run(self) -> None:
        after_s = self._pulse.stuck_after_s
        while not self.stopped.wait(after_s / 10):
            if self._inside and self._pulse.quiet_for_s() > after_s:
                self._bite(after_s)
                return


def _give_up(after_s: float) -> None:
    sys.stderr.write(f"error: a call to the GPU driver has not returned for {after_s:g} s; exiting\n")
    sys.stderr.flush()
    # Threads that hang in the driver would prevent an ordinary exit.
    os._exit(RESTART)


def boot_id() -> str:
    """The kernel's identifier of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
