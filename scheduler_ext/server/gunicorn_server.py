"""Run the server: the entry for the command line. gunicorn itself is imported in `run_server` only: it reads
WEB_CONCURRENCY while it is imported, and fails there on a value that `refuse_workers` should have
reported."""

import argparse
import os
import resource
import shlex
import sys
from collections.abc import Callable, Mapping

from scheduler_ext.printable import printable
from scheduler_ext.server.http.listeners import ListenError, listen
from scheduler_ext.server.server_options import Apps, ServerOptions

# Read by gunicorn wherever they come from: another worker count, sockets handed over by another process,
# and a prefix that would move every route.
_FOREIGN_ENVIRONMENT = (
    *("WEB_CONCURRENCY", "GUNICORN_PID", "GUNICORN_FD"),
    *("LISTEN_PID", "LISTEN_FDS", "SCRIPT_NAME"),
)
# Two for each connection of the three listeners, and the files of the applications.
_OPEN_FILES = 4096
# The kernel takes twice this, for its own records.
_SIDE_SEND_BUFFER_BYTES = 256 * 1024
_ONE_WORKER = (
    "the inventory and its holdings live in the memory of one process, and two workers would hand out the "
    "same GPU twice; remove the setting, or set it to 1"
)


def refuse_workers(environ: Mapping[str, str], workers_flag: int | None) -> str | None:
    """The message to refuse to start with when anything but one worker is asked for, else None. Checks the
    command line flag (None: not given), GUNICORN_CMD_ARGS and WEB_CONCURRENCY; a value that cannot be read is
    refused too, because its meaning is unknown."""
    if workers_flag is not None and workers_flag != 1:
        return f"--workers {workers_flag}: {_ONE_WORKER}"
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("-w", "--workers", action="append", nargs="?", const="", default=[])
    try:
        found, _ = parser.parse_known_args(shlex.split(environ.get("GUNICORN_CMD_ARGS", "")))
    except (ValueError, argparse.ArgumentError) as error:
        return f"GUNICORN_CMD_ARGS cannot be read ({error}): correct its quoting or unset it"
    asked = [("GUNICORN_CMD_ARGS", value) for value in found.workers]
    if concurrency := environ.get("WEB_CONCURRENCY", ""):
        asked.append(("WEB_CONCURRENCY", concurrency))
    for setting, value in asked:
        if value.strip() != "1":
            return f"{setting} asks for {value!r} workers: {_ONE_WORKER}"
    return None


def run_server(options: ServerOptions, build_apps: Callable[[], Apps]) -> None:
    """Serve until SIGTERM or SIGINT, then exit the process with status 0.

    `build_apps` runs in the worker process, after the fork. Once its applications are built and all three
    listeners accept, one line is printed to stderr:
    `ready api=http://HOST:PORT health=http://HOST:PORT inspect=http://HOST:PORT`, with https for an API
    that speaks TLS.

    Exits with status 1 and one message when an address is not available, when a file of `options.tls` cannot
    be used, when `build_apps` raises, or when the worker process dies."""
    for name in _FOREIGN_ENVIRONMENT:
        os.environ.pop(name, None)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        sockets = [
            listen("the API", options.api_listen),
            listen("health", options.health_listen, _SIDE_SEND_BUFFER_BYTES),
            listen("inspection", options.inspect_listen, _SIDE_SEND_BUFFER_BYTES),
        ]
    except ListenError as error:
        print(printable(f"error: {error}"), file=sys.stderr, flush=True)
        raise SystemExit(1) from None
    from scheduler_ext.server.worker import run_arbiter

    run_arbiter(options, build_apps, sockets)
