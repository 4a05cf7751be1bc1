"""A proxy between kube-scheduler and an extender that records every call, and can answer instead."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import urllib3

from tests.e2e.cluster.ports import LOOPBACK


@dataclass(frozen=True, slots=True)
class Call:
    """One call and its answer, both decoded."""

    verb: str
    request: Any
    status: int
    reply: Any


class Proxy(ThreadingHTTPServer):
    """Use `running_proxy`. `answer_instead`, if set, is the status and body of every answer."""

    daemon_threads = True

    def __init__(self, extender_url: str) -> None:
        super().__init__((LOOPBACK, 0), _Relay)
        self.extender_url = extender_url
        self.calls: list[Call] = []
        self.answer_instead: tuple[int, bytes] | None = None
        self.pool = urllib3.PoolManager(retries=False, timeout=30.0)

    @property
    def url(self) -> str:
        """The address for kube-scheduler."""
        return f"http://{LOOPBACK}:{self.server_port}"

    def of(self, verb: str) -> list[Call]:
        """The calls of one verb, oldest first."""
        return [call for call in self.calls if call.verb == verb]


class _Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        verb = self.path.strip("/")
        status, reply = self.server.answer_instead or self._ask(body)
        self.server.calls.append(Call(verb, json.loads(body), status, _decoded(reply)))
        head = (
            f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(reply)}\r\n\r\n"
        )
        # In one write: the rest of an answer would wait for the acknowledgement of a small first part.
        self.wfile.write(head.encode() + reply)

    def _ask(self, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        url = self.server.extender_url + self.path
        reply = self.server.pool.request("POST", url, body=body, headers=headers)
        return reply.status, reply.data

    def log_message(self, format: str, *args: Any) -> None:
        """Calls are in `calls`."""


def _decoded(reply: bytes) -> Any:
    try:
        return json.loads(reply)
    except ValueError:
        return reply


@contextlib.contextmanager
def running_proxy(extender_url: str) -> Iterator[Proxy]:
    """A proxy before an extender."""
    with Proxy(extender_url) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
