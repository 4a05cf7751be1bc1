"""The worker process: three loops on three listeners, started after the applications are built.

From gunicorn this uses `gunicorn.workers.base.Worker`, the base class gunicorn documents for worker classes
of one's own (`load_wsgi`, `init_signals`, `run`, `notify`, `handle_exit` and the attributes set by its
constructor).
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from gunicorn.workers.base import Worker

from scheduler_ext.server.http.certificates import ServerCertificates
from scheduler_ext.server.http.http_loop import HttpLoop
from scheduler_ext.server.http.listeners import url
from scheduler_ext.server.server_options import (
    MIB,
    PROBES,
    SIDE_BODY_BYTES,
    Apps,
    LoopLimits,
    ServerOptions,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger(__name__)

BOOT_FAILED = 3
"""Exit status of a worker whose applications could not be built; it has said why."""

STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGQUIT})

# Go's HTTP client keeps idle connections for 90 s and does not repeat a POST that met a closed one, so the
# client has to be the one that closes.
_KEEPALIVE_S = 120.0
# kube-scheduler needs some dozens; the rest is room in which slow clients hurt nobody.
_API_CONNECTIONS = 1000
# Probes and one or two scrapers.
_SIDE_CONNECTIONS = 256
_SIDE_THREADS = 4
# At a stop: how long a kept-alive API connection waits for the request its client may be sending, and how
# long the other listeners have for what is in flight; a probe or a scrape is repeated anyway.
_API_LINGER_S = 2.0
_SIDE_GRACE_S = 0.3
# Room for several of the largest requests at once, and on the other listeners for several replies about all
# nodes: a scrape of 5,000 has 6 MB, and 40 with a series for each GPU.
_HELD_BODIES = 4
_SIDE_HELD_BYTES = 64 * MIB
# A reading client takes a reply of 300 KB within this.
_PATIENCE_S = 0.02


class ExtenderWorker(Worker):  # type: ignore[misc]
    """gunicorn's worker process around the three loops; gunicorn constructs it before the fork."""

    sockets: list[Any]
    cfg: Any
    alive: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._options: ServerOptions = self.app.options
        self._build_apps: Callable[[], Apps] = self.app.build_apps
        self._loops: list[HttpLoop] = []

    def init_signals(self) -> None:
        super().init_signals()
        # gunicorn's SIGINT drops what is in flight; Ctrl-C reaches the whole process group.
        signal.signal(signal.SIGINT, self.handle_exit)
        # The arbiter blocked these across the fork, so that none is lost before the handlers exist.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.alive = False
        if self._loops:
            self._loops[0].stop()

    def load_wsgi(self) -> None:
        """Build the applications; a failure ends the worker, and with it the server, with one message."""
        try:
            files = self._options.tls
            self._certificates = ServerCertificates(files) if files else None
            self._apps = self._build_apps()
        except Exception as error:
            log.debug("building the applications failed", exc_info=True)
            print(f"error: cannot start: {str(error) or type(error).__name__}", file=sys.stderr, flush=True)
            raise SystemExit(BOOT_FAILED) from error

    def run(self) -> None:
        """Serve until told to stop, then answer what is in flight and close the applications."""
        try:
            api, health, inspect = self.sockets
            loop = self._loop("api", api, self._apps.api)
            sides = [
                self._loop("health", health, self._apps.health),
                self._loop("inspect", inspect, self._apps.inspect),
            ]
            api_url = url(api, "https" if self._certificates else "http")
            ready = f"ready api={api_url} health={url(health)} inspect={url(inspect)}\n"
            self._loops = [loop, *sides]
            threads = [
                threading.Thread(target=side.run, args=(_no_tick, _SIDE_GRACE_S, 0.0), daemon=True)
                for side in sides
            ]
            for thread in threads:
                thread.start()
            if self._certificates:
                self._certificates.start()
            if self.alive:
                # One write, so that no other line can come between its parts.
                sys.stderr.write(ready)
                sys.stderr.flush()
            else:
                loop.stop()
            # The arbiter kills the process when the grace period is over: one second is left for the rest.
            loop.run(self._tick, max(1.0, self.cfg.graceful_timeout - 1.0), _API_LINGER_S)
            # Probes and scrapes are answered for as long as the API is.
            for side in sides:
                side.stop()
            for thread in threads:
                thread.join(_SIDE_GRACE_S * 2)
        finally:
            if self._certificates:
                self._certificates.stop()
            try:
                self._apps.close()
            except Exception:
                log.exception("closing the applications failed")

    def _loop(self, name: str, listener: Any, app: WSGIApplication) -> HttpLoop:
        options = self._options
        is_api = name == "api"
        max_body_bytes = options.max_body_bytes if is_api else SIDE_BODY_BYTES
        limits = LoopLimits(
            threads=options.threads if is_api else _SIDE_THREADS,
            max_connections=_API_CONNECTIONS if is_api else _SIDE_CONNECTIONS,
            max_body_bytes=max_body_bytes,
            max_held_bytes=_HELD_BODIES * max_body_bytes if is_api else _SIDE_HELD_BYTES,
            read_timeout_s=options.read_timeout_s,
            write_timeout_s=options.write_timeout_s,
            keepalive_s=_KEEPALIVE_S,
            patience_s=_PATIENCE_S if is_api else 0.0,
            probes=PROBES if name == "health" else frozenset(),
        )
        return HttpLoop(name, listener, app, limits, self.cfg, self._certificates if is_api else None)

    def _tick(self) -> None:
        """Tell the arbiter that we live, and stop when it no longer does."""
        self.notify()
        if self.alive and os.getppid() != self.ppid:
            log.error("the arbiter process is gone: stopping")
            self.alive = False
            self._loops[0].stop()


def _no_tick() -> None:
    """The other loops have nobody to report to."""
