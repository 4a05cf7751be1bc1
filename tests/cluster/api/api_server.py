"""A server with LIST and WATCH as in a Kubernetes API, and faults on demand.

For faults that a real kube-apiserver does not produce on demand, and for clusters that are too large for one
on a small machine. Plain HTTP on loopback, a thread for each connection. As a program, with a large cluster
and events:

python -m tests.cluster.api.api_server --nodes 5000 --pods 50000 --events-per-second 500
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from tests.cluster.api.api_faults import Faults
from tests.cluster.api.api_handler import Answer, Handler
from tests.cluster.api.api_output import is_reset
from tests.cluster.api.api_requests import Match, Request, RequestLog, everything
from tests.cluster.api.api_store import Store

_STOP_S = 60
Hook = Callable[[Request], Answer | None]


class Listener(ThreadingHTTPServer):
    """Tracks its connections, so that all of them end when it stops."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, port: int, api: ApiServer) -> None:
        self.api = api
        self.stopping = threading.Event()
        self.connections: dict[socket.socket, threading.Thread] = {}
        self.known = threading.Lock()
        super().__init__(("127.0.0.1", port), Handler)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        with self.known:
            self.connections[request] = threading.current_thread()
        if self.stopping.is_set():
            # The others are cut already.
            self.shutdown_request(request)
        else:
            super().process_request_thread(request, client_address)
        with self.known:
            del self.connections[request]

    def shutdown_request(self, request: Any) -> None:
        # A connection that is shut down first ends with a FIN, whatever follows.
        if is_reset(request):
            request.close()
        else:
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


@dataclass
class ApiServer:
    """A Kubernetes API on loopback, which runs while it is entered as a context.

    `store` has its objects, `log` its requests, `faults` its faults. `hook` may answer a request in
    its place (None: it does not); `clock` gives the Date header and the timestamps, in seconds since 1970;
    where `tokens` are set, each request needs one of them. `ports` has the local stand-ins of pods' ports, by
    namespace, pod and port.
    """

    clock: Callable[[], float] = time.time
    tokens: set[str] = field(default_factory=set)
    hook: Hook | None = None
    ports: dict[tuple[str, str, int], tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = Store(lambda: self.clock())
        self.log = RequestLog()
        self.faults = Faults(self.store.wake)
        self.port = 0
        self._listener: Listener | None = None
        self._accepting: threading.Thread | None = None
        self._watching: list[Request] = []
        self._watching_changed = threading.Condition()

    @property
    def url(self) -> str:
        """Its URL; unchanged after a stop and a start."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen, on the last port if there was one."""
        self._listener = Listener(self.port, self)
        self.port = self._listener.server_address[1]
        self._accepting = threading.Thread(target=self._listener.serve_forever, args=(60,), daemon=True)
        self._accepting.start()

    def stop(self) -> None:
        """Stop: end all connections and listen no more; the objects stay."""
        listener, accepting = self._listener, self._accepting
        if listener is None or accepting is None:
            return
        self._listener = self._accepting = None
        listener.stopping.set()
        # Wakes the accepting thread, which otherwise looks once a minute.
        listener.socket.shutdown(socket.SHUT_RDWR)
        listener.shutdown()
        listener.server_close()
        accepting.join(_STOP_S)
        with listener.known:
            connections = dict(listener.connections)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                # It has ended by itself.
                continue
        self.store.wake()
        for thread in connections.values():
            thread.join(_STOP_S)
            assert not thread.is_alive(), "a connection of the API server is still served"

    def __enter__(self) -> ApiServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def watch_began(self, request: Request) -> None:
        with self._watching_changed:
            self._watching.append(request)
            self._watching_changed.notify_all()

    def watch_ended(self, request: Request) -> None:
        with self._watching_changed:
            # Two equal watches are still two.
            self._watching = [one for one in self._watching if one is not request]
            self._watching_changed.notify_all()

    def watching(self, match: Match = everything) -> int:
        """The number of connected watches; a client that left is missed within a tenth of a second."""
        with self._watching_changed:
            return sum(map(match, self._watching))

    def wait_for_watches(self, count: int, match: Match = everything) -> None:
        """Wait for exactly so many connected watches, a minute at most."""
        with self._watching_changed:
            counted = self._watching_changed.wait_for(lambda: self.watching(match) == count, timeout=60)
            assert counted, f"{self.watching(match)} watches, not {count}"

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig for this server, without credentials."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.url}}],
            "users": [{"name": "test", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        # JSON is YAML.
        path.write_bytes(msgspec.json.encode(config))
        return path
