"""A TCP proxy that delays the server's bytes, like a busy API server."""

from __future__ import annotations

import contextlib
import queue
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

from tests.e2e.cluster.ports import LOOPBACK

_CHUNK = 1 << 16
# A change of the delay also affects bytes that are on their way.
_LOOK_EVERY_S = 0.02


class Delay(socketserver.ThreadingTCPServer):
    """Use `running_delay`. Bytes from the server arrive `seconds` later; bytes from the client, at once."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, server: str) -> None:
        super().__init__((LOOPBACK, 0), _Relay)
        url = urlsplit(server)
        self.real = (url.hostname, url.port)
        self.url = f"{url.scheme}://{LOOPBACK}:{self.server_address[1]}"
        """For clients, in place of the server's."""
        self.seconds = 0.0


class _Relay(socketserver.BaseRequestHandler):
    server: Delay
    request: socket.socket

    def handle(self) -> None:
        late: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
        with contextlib.suppress(OSError), socket.create_connection(self.server.real) as server:
            for relay in (self._forward, self._read):
                threading.Thread(target=relay, args=(server, late), daemon=True).start()
            data = b"-"
            while data:
                came_at, data = late.get()
                while (left_s := came_at + self.server.seconds - time.monotonic()) > 0:
                    time.sleep(min(left_s, _LOOK_EVERY_S))
                self.request.sendall(data)

    def _forward(self, server: socket.socket, late: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        with contextlib.suppress(OSError):
            while data := self.request.recv(_CHUNK):
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)

    def _read(self, server: socket.socket, late: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        data = b"-"
        while data:
            try:
                data = server.recv(_CHUNK)
            except OSError:
                data = b""
            late.put((time.monotonic(), data))


@contextlib.contextmanager
def running_delay(server: str) -> Iterator[Delay]:
    """A proxy before a server, without any delay at first."""
    with Delay(server) as delay:
        thread = threading.Thread(target=delay.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield delay
        finally:
            delay.shutdown()
            thread.join()
