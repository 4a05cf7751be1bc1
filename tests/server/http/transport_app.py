"""A server for the transport tests, run as a process of its own: python -m tests.server.http.transport_app.

The paths of its API, which tests also serve in their own process:
POST /length reads the body and replies {"length": n, "age_s": s}; GET /large replies 8 MB, GET /large/MIB
that many MiB, and GET /shared always the same MiB; GET /stream replies in chunks; GET /echo replies with the
caller's data from the environ. Others reply with their path: GET /sleep/MS after that many milliseconds,
GET /wait when GO_ON is set, GET /wait-for-stop when the server listens no more; GET /leftover leaves an
object in the environ whose freeing waits for GET /let-go. The health listener replies "ok".
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler_ext.server import worker
from scheduler_ext.server.gunicorn_server import refuse_workers, run_server
from scheduler_ext.server.http.body import BODY_RECEIVED, BodyError, read_body
from scheduler_ext.server.http.connection import LINGER_S
from scheduler_ext.server.server_options import Apps, ServerOptions, TlsFiles

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse

# The data about a caller that an application uses.
_ECHOED = ("PATH_INFO", "SCRIPT_NAME", "HTTP_HOST", "REMOTE_ADDR", "REMOTE_USER", "wsgi.url_scheme")
LARGE_BYTES = 8 * 1024 * 1024
LARGE = b"x" * LARGE_BYTES
SHARED = bytes(1 << 20)
MAX_BODY_BYTES = 4 * 1024 * 1024
LET_GO = threading.Event()
GO_ON = threading.Event()


class Leftover:
    """Its freeing waits for a request of /let-go, half a minute at most."""

    def __del__(self) -> None:
        LET_GO.wait(30)


def api(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    match environ["PATH_INFO"].strip("/").split("/"):
        case ["length"]:
            try:
                length = len(read_body(environ, MAX_BODY_BYTES))
            except BodyError as error:
                return _json(start_response, {"error": str(error)}, f"{error.status} Refused")
            age_s = time.monotonic() - environ[BODY_RECEIVED]
            return _json(start_response, {"length": length, "age_s": age_s})
        case ["large"]:
            return _reply(start_response, LARGE, "text/plain")
        case ["large", mebibytes]:
            return _reply(start_response, bytes(int(mebibytes) << 20), "text/plain")
        case ["shared"]:
            return _reply(start_response, SHARED, "text/plain")
        case ["echo"]:
            texts = {name: value for name, value in environ.items() if isinstance(value, str)}
            return _json(start_response, {name: texts.get(name) for name in _ECHOED})
        case ["stream"]:
            start_response("200 OK", [("Content-Type", "text/plain")])
            return iter([b"one ", b"two ", b"three"])
        case [("livez" | "readyz")]:
            return _reply(start_response, b"ok", "text/plain")
        case path:
            _wait(path, environ)
            return _json(start_response, {"path": environ["PATH_INFO"]})


def _wait(path: list[str], environ: dict[str, Any]) -> None:
    """What some paths do before their reply."""
    match path:
        case ["wait"]:
            GO_ON.wait(60)
        case ["wait-for-stop"]:
            print("waits", file=sys.stderr, flush=True)
            while _listens(environ["SERVER_PORT"]):
                time.sleep(0.02)
        case ["sleep", milliseconds]:
            time.sleep(int(milliseconds) / 1000)
        case ["leftover"]:
            LET_GO.clear()
            environ["test.leftover"] = Leftover()
        case ["let-go"]:
            LET_GO.set()


def _listens(port: str) -> bool:
    """Whether a TCP socket of this host listens on a port."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(
        local.endswith(f":{int(port):04X}") and state == "0A"
        for _, local, _, state, *_ in map(str.split, lines)
    )


def health(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    return _reply(start_response, b"ok", "text/plain")


def inspect(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    return _json(start_response, {"pid": os.getpid()})


def _json(start_response: StartResponse, value: Any, status: str = "200 OK") -> Iterable[bytes]:
    return _reply(start_response, json.dumps(value).encode(), "application/json", status)


def _reply(
    start_response: StartResponse, body: bytes, content_type: str, status: str = "200 OK"
) -> Iterable[bytes]:
    start_response(status, [("Content-Type", content_type), ("Content-Length", str(len(body)))])
    return [body]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--api", default="127.0.0.1:0")
    parser.add_argument("--health", default="127.0.0.1:0")
    parser.add_argument("--inspect", default="127.0.0.1:0")
    parser.add_argument("--grace-s", type=float, default=10.0)
    parser.add_argument("--linger-s", type=float, default=LINGER_S)
    parser.add_argument("--fail", action="store_true")
    parser.add_argument("--slow-start-s", type=float, default=0.0)
    parser.add_argument("--tls-folder", type=Path)
    arguments = parser.parse_args()
    setattr(worker, "LINGER_S", arguments.linger_s)  # noqa: B010 (it is imported there)
    logging.basicConfig(format="LOG %(name)s %(levelname)s %(message)s", level=logging.INFO)
    refusal = refuse_workers(os.environ, None)
    if refusal:
        sys.exit(f"error: {refusal}")

    def build_apps() -> Apps:
        if arguments.fail:
            raise RuntimeError("the inventory\x1b[31m cannot be read")
        if arguments.slow_start_s:
            print("building", file=sys.stderr, flush=True)
            time.sleep(arguments.slow_start_s)
        return Apps(api, health, inspect, close=lambda: print("closed", file=sys.stderr, flush=True))

    options = ServerOptions(
        _address(arguments.api),
        _address(arguments.health),
        _address(arguments.inspect),
        graceful_timeout_s=arguments.grace_s,
        max_body_bytes=MAX_BODY_BYTES,
        tls=tls_files(arguments.tls_folder) if arguments.tls_folder else None,
    )
    run_server(options, build_apps)


def tls_files(folder: Path) -> TlsFiles:
    """The files of a mounted Secret of type kubernetes.io/tls."""
    return TlsFiles(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    main()
