"""Serve HTTP/1.1 on one listener: an event loop waits for all clients, and a pool of threads only computes.

A request reaches the pool when it is whole and leaves it when its reply is, so a client that is slow to
send or to read costs a socket and its bytes, never a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from scheduler_ext.server.http import listeners
from scheduler_ext.server.http.connection import LINGER_S, Connection, Phase
from scheduler_ext.server.http.cut_connections import CUT_CONNECTIONS
from scheduler_ext.server.http.exchange import HeadError
from scheduler_ext.server.http.tls import ServerCertificates
from scheduler_ext.server.server_options import Limits

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger(__name__)

# Two probes that come together, and nothing that takes long, share these.
_PROBE_THREADS = 2
_PROBES = frozenset({"/livez", "/readyz"})
# Go's HTTP client keeps idle connections for 90 s and does not repeat a POST that met a closed one, so the
# client has to be the one that closes.
_KEEPALIVE_S = 120.0


class HttpServer:
    """One listener, its connections and its threads; used on the event loop only."""

    def __init__(
        self,
        name: str,
        listener: socket.socket,
        app: WSGIApplication,
        limits: Limits,
        cfg: Any,
        certificates: ServerCertificates | None = None,
    ) -> None:
        self.app = app
        self.limits = limits
        self.cfg = cfg
        self.certificates = certificates
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
        self._probe_pool = ThreadPoolExecutor(_PROBE_THREADS, thread_name_prefix=f"{name}-probe")
        # In the order in which they entered the phase.
        self._connections: dict[Phase, dict[Connection, None]] = {phase: {} for phase in Phase}
        self._request_bytes = 0

    def start(self) -> None:
        """Accept connections from now on."""
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    async def stop(self, grace_s: float, linger_s: float) -> None:
        """Stop accepting, and finish what is open within `grace_s`.

        Idle connections stay open for `linger_s`, for a request that is already on its way.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_s
        self.stopping = True
        loop.remove_reader(self._listener)
        await listeners.leave(self._listener, self._accept)
        # The connections that were accepted last begin here.
        await asyncio.sleep(0)
        for phase in (Phase.HANDSHAKE, Phase.IDLE):
            self.durations_s[phase] = min(self.durations_s[phase], linger_s)
            for connection in self._connections[phase]:
                with contextlib.suppress(RuntimeError):
                    # It may be overdue just now.
                    connection.deadline.reschedule(loop.time() + self.durations_s[phase])
        while self._count(*list(Phase)[1:]) and loop.time() < until:
            await asyncio.sleep(0.02)
        for connections in self._connections.values():
            for connection in tuple(connections):
                self._drop(connection)
        for pool in (self._pool, self._probe_pool):
            pool.shutdown(wait=False)

    def pool(self, path: str) -> ThreadPoolExecutor:
        """The threads for a path: probes have their own, so that no other answer delays them."""
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
        """Cut connections until unanswered requests and unsent replies are within their bound.

        A reply to several connections, as those of scrapes that came together are, counts once. The
        connection that has waited for longest is cut, but a single reply may exceed the bound.
        """
        while self._request_bytes + self._reply_bytes() > self.limits.max_held_bytes:
            writing = self._connections[Phase.WRITING]
            candidates = [
                *self._oldest(Phase.READING),
                *(self._oldest(Phase.WRITING) if len(writing) > 1 else ()),
            ]
            if not candidates:
                return
            CUT_CONNECTIONS["pressure"] += 1
            victim = min(candidates, key=lambda connection: connection.deadline.when() or 0.0)
            if victim.phase is Phase.WRITING:
                victim.reset_at_close()
                self._drop(victim)
            else:
                victim.refuse(HeadError(503, "too many unfinished requests; send the whole request at once"))
                self.enter(victim, Phase.CLOSING)
                self.hold(victim, -victim.held_bytes)

    def _oldest(self, phase: Phase) -> list[Connection]:
        return list(self._connections[phase])[:1]

    def _reply_bytes(self) -> int:
        pieces = {
            id(piece.obj): len(piece) for each in self._connections[Phase.WRITING] for piece in each.reply
        }
        return sum(pieces.values())

    def _count(self, *phases: Phase) -> int:
        return sum(len(self._connections[phase]) for phase in phases)

    def _accept(self) -> bool:
        """Accept one connection; False when there is none."""
        try:
            sock, peer = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return False
        except OSError as error:
            log.warning("a connection could not be accepted: %s", error)
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._make_room()
            # The listener stays readable, and the loop would spin while nothing can be freed.
            time.sleep(0.01)
            return False
        if self._count(*Phase) >= self.limits.max_connections and not self._make_room():
            CUT_CONNECTIONS["pressure"] += 1
            sock.close()
            return True
        sock.setblocking(False)
        self.enter(Connection(self, sock, peer), Phase.HANDSHAKE)
        return True

    def _make_room(self) -> bool:
        """Drop the connection whose end loses least: kept-alive ones only after those that never sent a
        request. False when the application is at work for all of them."""
        for phase, connections in self._connections.items():
            if phase is Phase.SERVING:
                # Withdrawn from the queue of the pool.
                victim = next((each for each in connections if each.job and each.job.cancel()), None)
            else:
                victim = next(
                    (each for each in connections if not each.served), next(iter(connections), None)
                )
            if victim is not None:
                CUT_CONNECTIONS["pressure"] += 1
                if phase is Phase.WRITING:
                    victim.reset_at_close()
                self._drop(victim)
                return True
        return False

    def _drop(self, connection: Connection) -> None:
        self.forget(connection)
        connection.task.cancel()
