"""Serve HTTP/1.1 on one listener: an event loop waits for all clients, and a pool of threads computes, and
sends what the kernel takes at once. A
request reaches the pool when it is whole and leaves it when its reply is, so a client that is slow to send or
to read costs a socket and its bytes, never a thread."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, get_args

from scheduler_ext.counters import Counter
from scheduler_ext.server.http import listeners
from scheduler_ext.server.http.connection import LINGER_S, Connection, CutReason, Phase
from scheduler_ext.server.http.exchange import HeadError
from scheduler_ext.server.http.tls import ServerCertificates
from scheduler_ext.server.server_options import ListenerLimits

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger(__name__)

_PROBES = ("/livez", "/readyz")
# Go's HTTP client keeps idle connections for 90 s and does not repeat a POST that met a closed one, so the
# client has to be the one that closes.
_KEEPALIVE_S = 120.0


class HttpServer:
    """One listener, its connections and its threads. It accepts and counts; a Connection reads and writes.
    Used on the event loop, but for what threads of the pool append to `answered`."""

    cut = Counter(
        "gpu_extender_connections_cut",
        "Connections ended by the server: headers (head) or body (body) later than server.readTimeout, a "
        "reply not read within server.writeTimeout (reply), a TLS handshake that failed or took too long "
        "(tls), too many connections or bytes (pressure), an unexpected error (error).",
        ("reason",),
        get_args(CutReason),
    )

    def __init__(
        self,
        name: str,
        listener: socket.socket,
        app: WSGIApplication,
        limits: ListenerLimits,
        cfg: Any,
        certificates: ServerCertificates | None = None,
    ) -> None:
        self.app, self.limits, self.cfg, self.certificates = app, limits, cfg, certificates
        self.address = listener.getsockname()
        self.stopping = False
        self.durations_s = {
            Phase.HANDSHAKE: limits.read_timeout_s,
            Phase.IDLE: _KEEPALIVE_S,
            Phase.READING: limits.read_timeout_s,
            Phase.WRITING: limits.write_timeout_s,
            Phase.CLOSING: limits.read_timeout_s + LINGER_S,
        }
        self._listener = listener
        self._pool = ThreadPoolExecutor(limits.threads, thread_name_prefix=name)
        # Two probes that come together share these, so that no other answer delays them.
        self._probe_pool = ThreadPoolExecutor(2, thread_name_prefix=f"{name}-probe")
        # In the order in which they entered the phase.
        self._connections: dict[Phase, dict[Connection, None]] = {phase: {} for phase in Phase}
        self._request_bytes = 0
        # A thread has sent their reply, and they wait for the next request.
        self.answered: deque[Connection] = deque()

    def start(self) -> None:
        """Accept connections from now on."""
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    async def stop(self, grace_s: float, linger_s: float) -> None:
        """Stop accepting, and finish what is open within `grace_s`. Idle connections stay open for
        `linger_s`, for a request that is already on its way."""
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_s
        self.stopping = True
        self.settle()
        loop.remove_reader(self._listener)
        await listeners.leave(self._listener, self._accept)
        for phase in (Phase.HANDSHAKE, Phase.IDLE):
            self.durations_s[phase] = linger_s
            for connection in self._connections[phase]:
                # Raises for one that is overdue just now.
                with contextlib.suppress(RuntimeError):
                    connection.deadline.reschedule(loop.time() + linger_s)
        while self._count(*list(Phase)[1:]) and loop.time() < until:
            await asyncio.sleep(0.02)
        for connection in [each for phase in Phase for each in self._connections[phase]]:
            self._drop(connection)
        self._pool.shutdown(wait=False)
        self._probe_pool.shutdown(wait=False)

    def settle(self) -> None:
        """Take note of the replies that threads have sent."""
        while self.answered:
            self.answered.popleft().settle([], True)

    def pool(self, path: str) -> ThreadPoolExecutor:
        """The threads for a path."""
        return self._probe_pool if path in _PROBES else self._pool

    def enter(self, connection: Connection, phase: Phase) -> None:
        """Move a connection, new or known, to a phase."""
        self._connections[connection.phase].pop(connection, None)
        connection.phase = phase
        self._connections[phase][connection] = None

    def forget(self, connection: Connection) -> None:
        """A connection has ended."""
        self._connections[connection.phase].pop(connection, None)
        self.hold(connection, -connection.held_bytes)

    def hold(self, connection: Connection, count: int) -> None:
        """Count received bytes of a request, or with a negative number the end of that request."""
        connection.held_bytes += count
        self._request_bytes += count
        if count > 0:
            self.relieve()

    def relieve(self) -> None:
        """Cut connections until unanswered requests and unsent replies are within their bound. The connection
        that has waited for longest is cut, but a single reply may exceed the bound."""
        self.settle()
        reading, writing = self._connections[Phase.READING], self._connections[Phase.WRITING]
        while not self.has_room():
            oldest = [*list(reading)[:1], *(list(writing)[:1] if len(writing) > 1 else ())]
            if not oldest:
                return
            victim = min(oldest, key=lambda connection: connection.deadline.when() or 0.0)
            if victim.phase is Phase.WRITING:
                self._cut(victim)
            else:
                self.cut.inc("pressure")
                victim.refuse(HeadError(503, "too many unfinished requests; send the whole request at once"))
                self.enter(victim, Phase.CLOSING)
                self.hold(victim, -victim.held_bytes)

    def has_room(self, count: int = 0) -> bool:
        """Whether unanswered requests and unsent replies may grow by so many bytes."""
        return self._request_bytes + self._reply_bytes() + count <= self.limits.max_held_bytes

    def _reply_bytes(self) -> int:
        """A reply to several connections counts once, as that of scrapes that came together does."""
        pieces = {id(each.obj): len(each) for one in self._connections[Phase.WRITING] for each in one.reply}
        return sum(pieces.values())

    def _count(self, *phases: Phase) -> int:
        return sum(len(self._connections[phase]) for phase in phases)

    def _accept(self) -> bool:
        """Accept one connection; False when there is none."""
        self.settle()
        try:
            sock, peer = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return False
        except OSError as error:
            # There are no more files, for example. The listener stays readable, and the loop would spin.
            log.warning("a connection could not be accepted: %s", error)
            self._make_room()
            time.sleep(0.01)
            return False
        if self._count(*Phase) >= self.limits.max_connections and not self._make_room():
            self.cut.inc("pressure")
            sock.close()
            return True
        sock.setblocking(False)
        connection = Connection(self, sock, peer)
        self.enter(connection, Phase.HANDSHAKE)
        connection.start()
        return True

    def _make_room(self) -> bool:
        """Cut the connection whose end loses least: kept-alive ones only after those that never sent a
        request. False when the application is at work for all of them."""
        for phase, connections in self._connections.items():
            if phase is Phase.SERVING:
                # Withdrawn from the queue of the pool.
                victims: Iterator[Connection] = (each for each in connections if each.withdraw())
            else:
                victims = itertools.chain((each for each in connections if not each.served), connections)
            if victim := next(victims, None):
                self._cut(victim)
                return True
        return False

    def _cut(self, connection: Connection) -> None:
        self.cut.inc("pressure")
        if connection.phase is Phase.WRITING:
            connection.reset_at_close()
        self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self.forget(connection)
        connection.task.cancel()
