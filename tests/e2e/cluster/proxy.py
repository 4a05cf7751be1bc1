"""A proxy between kube-scheduler and an extender that counts the calls, and can answer instead."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import urllib3

from tests.e2e.cluster.ports import LOOPBACK


class Proxy(ThreadingHTTPServer):
    """Use `running_proxy`. `answer_instead`, if set, is the status and body of every answer."""

    daemon_threads = True

    def __init__(self, extender_url: str) -> None:
        super().__init__((LOOPBACK, 0), _Relay)
        self.extender_url = extender_url
        self.calls: Counter[str] = Counter()
        """By verb."""
        self.answer_instead: tuple[int, bytes] | None = None
        self.pool = urllib3.PoolManager(retries=False, timeout=30.0)

    @property
    def url(self) -> str:
        """The address for kube-scheduler."""
        return f"http://{LOOPBACK}:{self.server_port}"


class _Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        verb = self.path.strip("/")
        status, reply = self.server.answer_instead or self._ask(body)
        self.server.calls[verb] += 1
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
