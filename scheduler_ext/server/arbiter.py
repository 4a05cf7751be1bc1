"""gunicorn's arbiter for exactly one worker, whose death is the server's death.

From gunicorn this overrides `Arbiter.spawn_worker`, `reap_workers`, `halt`, `stop`, `signal` and the signal
handlers, and sets `LISTENERS`; none has documented stability. The test
tests/server/http/test_gunicorn_contract.py fails when they change.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger

from scheduler_ext.server.server_options import Apps, ServerOptions
from scheduler_ext.server.worker import BOOT_FAILED, STOP_SIGNALS, ExtenderWorker

log = logging.getLogger(__name__)


class StdlibLogger(Logger):  # type: ignore[misc]
    """gunicorn's own messages, left to the root logger's handlers and format (logger gunicorn.error)."""

    def setup(self, cfg: Any) -> None:
        self.cfg = cfg
        self.error_log.propagate = True
        self._access_log_enabled = False

    def info(self, msg: str, *args: Any, **kwargs: Any) -> None:
        # Which process started and which signal came is for debugging.
        self.debug(msg, *args, **kwargs)


class ExtenderApplication(BaseApplication):  # type: ignore[misc]
    """gunicorn's settings, and what the worker builds its applications from.

    A BaseApplication reads no command line, no configuration file and no GUNICORN_CMD_ARGS.
    """

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
        # gthread's shape (a poller and a thread pool, HTTP/1.1 keep-alive; sync closes after each reply),
        # but slow clients never hold a thread.
        "worker_class": ExtenderWorker,
        # The applications start threads and clients of their own, which do not survive a fork.
        "preload_app": False,
        # The poller reports every second; silence for this long means that the process hangs.
        "timeout": 30,
        # After SIGTERM. kubelet waits 30 s before it kills, so this is the one that counts.
        "graceful_timeout": max(2, round(options.graceful_timeout_s)),
        # A recycled worker would forget what it has assumed.
        "max_requests": 0,
        # The heartbeat file must not wait for a disk, nor need a writable root.
        "worker_tmp_dir": "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None,
        # Metrics tell more, for less than a line per request.
        "accesslog": None,
        "logger_class": StdlibLogger,
        # It would be created under the home directory, and nothing here uses it.
        "control_socket_disable": True,
        # Does not change with what else happens to be installed; the C parser saves 10 us.
        "http_parser": "python",
        # Nothing stands between us and the client: a header such as SCRIPT_NAME or X-Forwarded-Proto is not
        # believed, wherever it comes from.
        "forwarded_allow_ips": "",
        "forwarder_headers": "",
        "secure_scheme_headers": {},
        # Any that is well-formed: exchange.py refuses all but two, with a status that says so.
        "permit_unconventional_http_version": True,
        # kube-scheduler sends a short line and six headers.
        "limit_request_line": 4094,
        "limit_request_fields": 100,
        "limit_request_field_size": 8190,
    }


class SingleWorkerArbiter(Arbiter):  # type: ignore[misc]
    """Starts one worker, passes SIGTERM and SIGINT on as a graceful stop, and ends when the worker ends.

    A worker that dies is not replaced. Its assumed holdings died with it, so a replacement saves nothing
    over a restart of the container; and kubelet restarts with a back-off, counts restarts and reports an
    out-of-memory kill, all of which a respawning parent would hide.
    """

    def __init__(self, app: ExtenderApplication, sockets: list[socket.socket]) -> None:
        super().__init__(app)
        self.LISTENERS = sockets
        self._stopping = False

    def signal(self, sig: int, frame: FrameType | None) -> None:
        # gunicorn's SIGINT, and a second one during a stop, would drop what is in flight.
        super().signal(signal.SIGTERM if sig == signal.SIGINT else sig, frame)

    def spawn_worker(self) -> Any:
        # Between the fork and the worker's own handlers a signal would be queued for nobody.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            return super().spawn_worker()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)

    def reap_workers(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            # As process 1 of a container this also collects orphans, which are not workers.
            worker = self.WORKERS.pop(pid, None)
            if worker is not None:
                worker.tmp.close()
                if not self._stopping:
                    self._worker_died(os.waitstatus_to_exitcode(status))

    def _worker_died(self, exit_code: int) -> NoReturn:
        if exit_code < 0:
            log.error(
                "the worker process was killed by %s; stopping, so that the container is restarted",
                signal.Signals(-exit_code).name,
            )
        elif exit_code != BOOT_FAILED:
            log.error("the worker process ended with status %d; stopping", exit_code)
        self.halt(exit_status=1)
        raise SystemExit(1)

    def stop(self, graceful: bool = True) -> None:
        self._stopping = True
        super().stop(graceful)

    def halt(self, reason: str | None = None, exit_status: int = 0) -> None:
        self.stop()
        sys.exit(exit_status)

    def _ignore(self) -> None:
        log.warning("signal ignored: there is one worker, and settings are read at the start only")

    # More workers, other binaries and reloads in a second worker are what must not happen here.
    handle_hup = handle_ttin = handle_ttou = handle_usr1 = handle_usr2 = handle_winch = _ignore


def run_arbiter(options: ServerOptions, build_apps: Callable[[], Apps], sockets: list[socket.socket]) -> None:
    """Run the server on bound sockets (API, health, inspection); leaves by SystemExit."""
    parent = os.getpid()
    try:
        SingleWorkerArbiter(ExtenderApplication(options, build_apps), sockets).run()
    except SystemExit as leaving:
        if os.getpid() == parent:
            raise
        # The worker ends here: what the caller does on the way out is the parent's to do, and a thread
        # that still runs must not hold up the exit.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(leaving.code if isinstance(leaving.code, int) else 1)
