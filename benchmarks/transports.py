"""Compare the extender's transport with gunicorn's own workers, with and without slow clients.

Each server answers every POST after reading its body. Rounds are interleaved; times are medians, and the
slowest for good requests among slow clients: 64 clients each that stall in the head, stall in the body,
trickle the head, and do not read a reply of 8 MB. `gthread` has total deadlines by a thread that shuts down
overdue sockets; `asgi` runs the application on a thread of asyncio's.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import click
from gunicorn.app.base import BaseApplication
from gunicorn.workers.gthread import ThreadWorker

from benchmarks.processes import running_server
from scheduler_ext.server.gunicorn_server import run_server
from scheduler_ext.server.http.body import read_body
from scheduler_ext.server.server_options import Apps, ServerOptions

TIMEOUT_S = 1.5
LARGE = b"x" * (8 << 20)
LOOPBACK = "127.0.0.1"
WORKERS = ("own", "gthread", "asgi")
CLIENTS = 64


def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Read the body, and reply in few bytes, or in 8 MB under /large."""
    read_body(environ, 64 << 20)
    reply = LARGE if environ["PATH_INFO"] == "/large" else b"ok"
    start_response("200 OK", [("Content-Length", str(len(reply))), ("Content-Type", "text/plain")])
    return [reply]


async def asgi_app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """`app` for the asgi worker."""
    if scope["type"] != "http":
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    environ = {"PATH_INFO": scope["path"], "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)}
    replies = await asyncio.to_thread(app, environ, lambda *_: None)
    headers = [(b"content-length", b"%d" % len(replies[0])), (b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": replies[0]})


class DeadlineWorker(ThreadWorker):  # type: ignore[misc]
    """gthread whose requests, from the first byte to the end of the reply, take 1.5 s at most."""

    def init_process(self) -> None:
        self._due: dict[Any, float] = {}
        threading.Thread(target=self._cut, daemon=True).start()
        super().init_process()

    def _cut(self) -> None:
        while True:
            time.sleep(0.1)
            now = time.monotonic()
            for conn in [conn for conn, due in tuple(self._due.items()) if due <= now]:
                with contextlib.suppress(OSError):
                    conn.sock.shutdown(socket.SHUT_RDWR)

    def handle(self, conn: Any) -> Any:
        """Called by gunicorn on a thread of the pool."""
        self._due[conn] = time.monotonic() + TIMEOUT_S
        try:
            return super().handle(conn)
        finally:
            del self._due[conn]


class GunicornServer(BaseApplication):  # type: ignore[misc]
    """One of gunicorn's own workers on one port."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        super().__init__()

    def load_config(self) -> None:
        """Called by gunicorn to fill its configuration."""
        settings: dict[str, Any] = {
            "bind": [f"{LOOPBACK}:0"],
            "worker_class": DeadlineWorker if self._worker == "gthread" else self._worker,
            "threads": 64,
            "keepalive": 120,
            "control_socket_disable": True,
            "loglevel": "critical",
            "when_ready": _announce,
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """Called by gunicorn in the worker."""
        return asgi_app if self._worker == "asgi" else app


def _announce(arbiter: Any) -> None:
    port = arbiter.LISTENERS[0].sock.getsockname()[1]
    print(f"ready api=http://{LOOPBACK}:{port}", file=sys.stderr, flush=True)


def serve(worker: str) -> None:
    """Serve until SIGTERM."""
    if worker != "own":
        GunicornServer(worker).run()
    any_port = (LOOPBACK, 0)
    options = ServerOptions(any_port, any_port, any_port, read_timeout_s=TIMEOUT_S, write_timeout_s=TIMEOUT_S)
    run_server(options, lambda: Apps(app, app, app, close=lambda: None))


def post(body: bytes, path: str = "/") -> bytes:
    """A whole request."""
    return f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def ask(sock: socket.socket, raw: bytes) -> float:
    """The seconds until a short reply is there."""
    started = time.perf_counter()
    sock.sendall(raw)
    received = b""
    while not received.endswith(b"\r\n\r\nok"):
        piece = sock.recv(65536)
        if not piece:
            raise ConnectionError("closed before the reply was whole")
        received += piece
    return time.perf_counter() - started


def connect(address: tuple[str, int]) -> socket.socket:
    """A connection that gives up after ten seconds."""
    sock = socket.create_connection(address, timeout=10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


@contextlib.contextmanager
def slow_clients(address: tuple[str, int]) -> Iterator[list[socket.socket]]:
    """64 of each kind; those that trickle send a byte in 100 ms."""
    raw = post(b"x" * 100)
    with contextlib.ExitStack() as stack:
        socks, trickling = [], []
        for first in (raw[:20], raw[:-50], raw[:5], post(b"", "/large")):
            for _ in range(CLIENTS):
                sock = stack.enter_context(connect(address))
                sock.sendall(first)
                socks.append(sock)
                if first == raw[:5]:
                    trickling.append(sock)
        stop = threading.Event()

        def trickle() -> None:
            position = 5
            while not stop.wait(0.1):
                for sock in trickling:
                    with contextlib.suppress(OSError):
                        sock.send(raw[position : position + 1])
                position += 1

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            yield socks
        finally:
            stop.set()
            thread.join()


def is_open(sock: socket.socket) -> bool:
    """Whether the server keeps a connection whose client reads what has come so far."""
    sock.setblocking(False)
    try:
        while sock.recv(1 << 20):
            pass
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def among_slow(address: tuple[str, int], for_s: float) -> tuple[list[float], int]:
    """The seconds of good requests on fresh connections, and how many slow clients are still connected.

    A good request that was not answered counts as 10 seconds.
    """
    took_s = []
    with slow_clients(address) as slow:
        until = time.monotonic() + for_s
        while time.monotonic() < until:
            started = time.perf_counter()
            try:
                with connect(address) as sock:
                    ask(sock, post(b"x" * 1000))
                took_s.append(time.perf_counter() - started)
            except OSError:
                took_s.append(10.0)
            time.sleep(0.02)
        return took_s, sum(map(is_open, slow))


@click.command()
@click.option("--rounds", default=30, show_default=True)
@click.option(
    "--slow-s", default=5.0, show_default=True, help="How long good requests are made among slow ones."
)
@click.option("--serve", "worker", type=click.Choice(WORKERS), help="Only serve, with this worker.")
def main(rounds: int, slow_s: float, worker: str | None) -> None:
    """Print one line for each transport."""
    if worker:
        serve(worker)
        return
    with contextlib.ExitStack() as stack:
        command = [sys.executable, "-m", "benchmarks.transports", "--serve"]
        urls = {name: stack.enter_context(running_server([*command, name], "api")) for name in WORKERS}
        addresses = {name: (LOOPBACK, int(url.rpartition(":")[2])) for name, url in urls.items()}
        socks = {name: stack.enter_context(connect(address)) for name, address in addresses.items()}
        raws = {"small": post(b"{}"), "250 kB": post(b"x" * 250_000)}
        times: dict[tuple[str, str], list[float]] = {}
        for _ in range(rounds):
            for kind, raw in raws.items():
                for name, sock in socks.items():
                    times.setdefault((name, kind), []).extend(ask(sock, raw) for _ in range(20))
        for name, address in addresses.items():
            took_s, left = among_slow(address, slow_s)
            medians = ", ".join(
                f"{kind} {statistics.median(times[name, kind]) * 1e6:.0f} us" for kind in raws
            )
            among = f"median {statistics.median(took_s):.3f} s, slowest {max(took_s):.2f} s, {left} left"
            click.echo(f"{name}: {medians}; among slow clients: {among}")


if __name__ == "__main__":
    main()
