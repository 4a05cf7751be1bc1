"""The server's processes: gunicorn's arbiter for exactly one worker, and that worker with its event loop.

A worker that dies is not replaced. Its assumed holdings died with it, so a replacement saves nothing over a
restart of the container; and kubelet restarts with a back-off, counts restarts and reports an out-of-memory
kill, all of which a respawning parent would hide.

From gunicorn this uses the documented base class `Worker` and settings, and beyond the documentation
`Arbiter.LISTENERS` and its signal handlers."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.workers.base import Worker

from scheduler_ext.printable import printable
from scheduler_ext.server.http.connection import LINGER_S
from scheduler_ext.server.http.http_server import HttpServer
from scheduler_ext.server.http.listeners import url
from scheduler_ext.server.http.tls import ServerCertificates
from scheduler_ext.server.server_options import MIB, Apps, ListenerLimits, ServerOptions

log = logging.getLogger(__name__)

# After a stop the other listeners have this long for what is in flight; probes and scrapes are repeated.
_SIDE_GRACE_S = 0.3


class ExtenderWorker(Worker):  # type: ignore[misc]
    """gunicorn's worker process around the event loop; gunicorn constructs it before the fork."""

    sockets: list[socket.socket]
    cfg: Any
    alive: bool

    def init_signals(self) -> None:
        super().init_signals()
        self._stop: Callable[[], object] = lambda: None
        # gunicorn's SIGINT drops what is in flight; Ctrl-C reaches the whole process group.
        signal.signal(signal.SIGINT, self.handle_exit)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.alive = False
        self._stop()

    def load_wsgi(self) -> None:
        """Build the applications; a failure ends the worker, and with it the server, with one message."""
        try:
            files = self.app.options.tls
            self._certificates = ServerCertificates(files) if files else None
            self._apps = self.app.build_apps()
        except Exception as error:
            log.debug("building the applications failed", exc_info=True)
            text = printable(f"error: cannot start: {str(error) or type(error).__name__}")
            print(text, file=sys.stderr, flush=True)
            os._exit(0)

    def run(self) -> None:
        """Serve until SIGTERM, answer what is in flight, close the applications, and end the process."""
        try:
            with contextlib.closing(self._apps):
                asyncio.run(self._serve())
        except Exception:
            log.exception("the worker process ends by an error")
        finally:
            # The parent does what the caller does on the way out, and a thread that still runs must not hold
            # up the exit.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)

    async def _serve(self) -> None:
        # glibc then keeps up to twice as much freed memory, instead of faulting it in for each request.
        bytes(4 * MIB)
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stopped.set)
        api, *sides = servers = self._servers()
        for server in servers:
            server.start()
        ticking = asyncio.create_task(self._tick())
        if self.alive:
            schemes = "https" if self._certificates else "http", "http", "http"
            # One write, so that no other line can come between its parts.
            sys.stderr.write("ready api={} health={} inspect={}\n".format(*map(url, self.sockets, schemes)))
            sys.stderr.flush()
            await stopped.wait()
        # The arbiter kills the process when the grace period is over: one second is left for the rest.
        await api.stop(max(1.0, self.cfg.graceful_timeout - 1.0), LINGER_S)
        # Probes and scrapes are answered for as long as the API is.
        await asyncio.gather(*(side.stop(_SIDE_GRACE_S, _SIDE_GRACE_S) for side in sides))
        ticking.cancel()

    def _servers(self) -> list[HttpServer]:
        options: ServerOptions = self.app.options
        timeouts_s = options.read_timeout_s, options.write_timeout_s
        # kube-scheduler needs some dozens of connections; the rest is room in which slow clients do no harm.
        # Four of the largest requests fit at once.
        body = options.max_body_bytes
        # A body of 5,000 names arrives in one read.
        api = ListenerLimits(options.threads, 1000, body, 4 * body, MIB // 4, *timeouts_s)
        # Probes and one or two scrapers; no body is larger than a pod. A scrape of 5,000 nodes has
        # 5.3 MB, and 38 with a series for each GPU.
        side = ListenerLimits(4, 256, 4 * MIB, 64 * MIB, MIB // 16, *timeouts_s)
        apps = self._apps
        return [
            HttpServer("api", self.sockets[0], apps.api, api, self.cfg, self._certificates),
            HttpServer("health", self.sockets[1], apps.health, side, self.cfg),
            HttpServer("inspect", self.sockets[2], apps.inspect, side, self.cfg),
        ]

    async def _tick(self) -> None:
        """Each second: report to the arbiter, stop when it is gone, and look for renewed certificates."""
        while True:
            self.notify()
            if self.alive and os.getppid() != self.ppid:
                log.error("the arbiter process is gone: stopping")
                self.handle_exit(signal.SIGTERM, None)
            if self._certificates:
                self._certificates.look()
            await asyncio.sleep(1.0)


class StdlibLogger(Logger):  # type: ignore[misc]
    """gunicorn's errors, left to the root logger's handlers and format (logger gunicorn.error)."""

    def setup(self, cfg: Any) -> None:
        self.cfg = cfg
        self.error_log.propagate = True
        self.error_log.setLevel(logging.WARNING)
        self._access_log_enabled = False


class ExtenderApplication(BaseApplication):  # type: ignore[misc]
    """gunicorn's settings, and what the worker builds its applications from. A BaseApplication reads no
    command line, no configuration file and no GUNICORN_CMD_ARGS."""

    def __init__(self, options: ServerOptions, build_apps: Callable[[], Apps]) -> None:
        self.options = options
        self.build_apps = build_apps
        super().__init__()

    def load_config(self) -> None:
        for name, value in settings(self.options).items():
            self.cfg.set(name, value)


def settings(options: ServerOptions) -> dict[str, Any]:
    """The gunicorn settings of the server, each with its why; all others keep gunicorn's defaults."""
    return {
        # Inventory and holdings are in memory: two workers would hand out the same GPU twice.
        "workers": 1,
        "worker_class": ExtenderWorker,
        "child_exit": _worker_ended,
        # The worker reports every second; silence for this long means that the process hangs.
        "timeout": 30,
        # After SIGTERM. kubelet waits 30 s before it kills, so this is the one that counts.
        "graceful_timeout": max(2, round(options.graceful_timeout_s)),
        # The heartbeat file must not wait for a disk, nor need a writable root.
        "worker_tmp_dir": "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None,
        "logger_class": StdlibLogger,
        # It would be created under the home directory, and nothing here uses it.
        "control_socket_disable": True,
        # Does not change with what else happens to be installed; the C parser saves 10 us.
        "http_parser": "python",
        # There is no proxy: a header such as SCRIPT_NAME or X-Forwarded-Proto is never believed.
        "forwarded_allow_ips": "",
        "forwarder_headers": "",
        "secure_scheme_headers": {},
        # Any that is well-formed: exchange.py refuses all but two, with a status that says so.
        "permit_unconventional_http_version": True,
    }


def _worker_ended(arbiter: Arbiter, worker: ExtenderWorker) -> None:
    # A stop begins by dropping the listeners.
    if arbiter.LISTENERS:
        raise SystemExit(1)


class SingleWorkerArbiter(Arbiter):  # type: ignore[misc]
    """Starts one worker, passes SIGTERM and SIGINT on as a graceful stop, and ends when the worker ends."""

    def signal(self, sig: int, frame: FrameType | None) -> None:
        # gunicorn's SIGINT, and a second one during a stop, would drop what is in flight.
        super().signal(signal.SIGTERM if sig == signal.SIGINT else sig, frame)

    def _ignore(self) -> None:
        log.warning("signal ignored: there is one worker, and settings are read at the start only")

    # gunicorn uses these signals for more workers, other binaries and reloads, which must not happen here.
    handle_hup = handle_ttin = handle_ttou = handle_usr1 = handle_usr2 = handle_winch = _ignore


def run_arbiter(options: ServerOptions, build_apps: Callable[[], Apps], sockets: list[socket.socket]) -> None:
    """Run the server on bound sockets (API, health, inspection); leaves by SystemExit."""
    arbiter = SingleWorkerArbiter(ExtenderApplication(options, build_apps))
    arbiter.LISTENERS = sockets
    arbiter.run()
