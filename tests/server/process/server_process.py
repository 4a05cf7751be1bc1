"""Start a server as a process, and speak raw HTTP to it."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

REPOSITORY = Path(__file__).parents[3]
READY = re.compile(r"ready api=https?://(\S+) health=http://(\S+) inspect=http://(\S+)")


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class ServerProcess:
    """The process under test; its stderr is collected by a thread."""

    MODULE: ClassVar[tuple[str, ...]] = ("tests.server.http.transport_app",)

    def __init__(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.tls = tls
        self.process = subprocess.Popen(
            [sys.executable, "-m", *self.MODULE, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(env or {})},
        )
        self.lines: list[str] = []
        self._arrived = threading.Condition()
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()

    def _collect(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._arrived:
                self.lines.append(line.rstrip("\n"))
                self._arrived.notify_all()
        with self._arrived:
            self.lines.append("(end)")
            self._arrived.notify_all()

    @property
    def stderr(self) -> str:
        return "\n".join(self.lines)

    def ready(self) -> Self:
        """Wait for the ready line and note the three addresses."""
        with self._arrived:
            came = self._arrived.wait_for(
                lambda: any(READY.match(line) or line == "(end)" for line in self.lines), timeout=60
            )
        match = next((found for line in self.lines if (found := READY.match(line))), None)
        assert came, f"no ready line within a minute:\n{self.stderr}"
        assert match, f"the server ended:\n{self.stderr}"
        self.api, self.health, self.inspect = (_address(text) for text in match.groups())
        return self

    def connect(self, timeout_s: float = 60) -> socket.socket:
        """A connection to the API, over TLS where the server was started with a context for its clients."""
        return connect(self.api, timeout_s, self.tls)

    def wait_for_line(self, text: str, start: int = 0) -> int:
        """The number of the first line from `start` on that contains a text."""

        def found() -> int | None:
            numbered = enumerate(self.lines[start:], start)
            return next((number for number, line in numbered if text in line), None)

        with self._arrived:
            assert self._arrived.wait_for(lambda: found() is not None, timeout=60), (
                f"no {text!r} in {self.stderr}"
            )
            number = found()
        assert number is not None
        return number

    def worker_pid(self) -> int:
        return int(get(self.inspect, "/").json()["pid"])

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, timeout_s: float = 60) -> int:
        """The exit status; stdout must have stayed empty."""
        code = self.process.wait(timeout_s)
        self._reader.join(60)
        assert self.process.stdout is not None
        assert self.process.stdout.read() == ""
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(60)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def connect(
    address: tuple[str, int], timeout_s: float = 60, tls: ssl.SSLContext | None = None
) -> socket.socket:
    """A connection, over TLS where a context is given. Raises OSError, and leaves nothing open then."""
    sock = socket.create_connection(address, timeout=timeout_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls is None:
        return sock
    try:
        return tls.wrap_socket(sock, server_hostname=address[0])
    except OSError:
        sock.close()
        raise


def request(path: str, body: bytes = b"", *headers: str, method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "\r\n"]).encode() + body


def read_reply(sock: socket.socket, received: bytes = b"") -> Reply:
    """One reply with Content-Length. Raises ConnectionError when it does not come whole."""
    while b"\r\n\r\n" not in received:
        received += _some(sock)
    head, _, start = received.partition(b"\r\n\r\n")
    status_line, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = bytearray(start)
    while len(body) < int(headers["content-length"]):
        body += _some(sock)
    return Reply(int(status_line.split()[1]), headers, bytes(body))


def read_to_end(sock: socket.socket) -> bytes:
    """Everything until the server closes."""
    received = b""
    while piece := sock.recv(65536):
        received += piece
    return received


def _some(sock: socket.socket) -> bytes:
    piece = sock.recv(1 << 20)
    if not piece:
        raise ConnectionError("closed before the reply was whole")
    return piece


def call(sock: socket.socket, raw: bytes) -> Reply:
    sock.sendall(raw)
    return read_reply(sock)


def get(address: tuple[str, int], path: str) -> Reply:
    with connect(address) as sock:
        return call(sock, request(path, method="GET"))


def eventually(true: Callable[[], bool]) -> None:
    """Wait until it holds, a minute at most."""
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until
        time.sleep(0.05)
