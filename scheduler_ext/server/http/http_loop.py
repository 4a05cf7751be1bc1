"""Serve HTTP/1.1 on one listener: one thread that waits for all clients, and a pool that only computes.

A request reaches the pool when it is whole and leaves it when its reply is, so a client that is slow to
send or to read costs a socket and its bytes, never a thread. That is what distinguishes this loop from
gunicorn's gthread worker, whose shape it otherwise has (a poller, a thread pool, kept-alive connections
back to the poller): there a request is read, and a reply written, by a pool thread under no deadline, and
the poller itself waits up to 2 s for each client that does not close.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from scheduler_ext.server.http import listeners
from scheduler_ext.server.http.acceptor import Acceptor
from scheduler_ext.server.http.body import BodyTimeout, BodyTruncated
from scheduler_ext.server.http.certificates import ServerCertificates
from scheduler_ext.server.http.connection import Connection, Phase
from scheduler_ext.server.http.connection_table import ConnectionTable
from scheduler_ext.server.http.cut_connections import CUT_CONNECTIONS, CutReason
from scheduler_ext.server.http.exchange import HeadError, answer, error_reply
from scheduler_ext.server.server_options import LoopLimits

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger(__name__)

# Reads of one client before it is the next one's turn.
_READS_PER_TURN = 4
# Two probes that come together, and nothing that takes long, share these.
_PROBE_THREADS = 2
# After its last reply a client has this long to close first, which spares it a reset (RFC 9112, 9.6).
_LINGER_S = 2.0
_HOLDS_UP_STOP = (
    *(Phase.HANDSHAKE, Phase.IDLE, Phase.READING),
    *(Phase.SERVING, Phase.WRITING, Phase.DISCARDING),
)


class HttpLoop:
    """One listener, its connections and its thread pool; `run` is the life of its thread."""

    def __init__(
        self,
        name: str,
        listener: socket.socket,
        app: WSGIApplication,
        limits: LoopLimits,
        cfg: Any,
        certificates: ServerCertificates | None = None,
    ) -> None:
        self._listener = listener
        self._app = app
        self._limits = limits
        self._cfg = cfg
        self._pool = ThreadPoolExecutor(limits.threads, thread_name_prefix=name)
        self._probe_pool = ThreadPoolExecutor(_PROBE_THREADS, thread_name_prefix=f"{name}-probe")
        self._served: deque[Connection] = deque()
        # Never closed: a pool thread may outlive the loop.
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stopping = False
        durations_s = {
            Phase.HANDSHAKE: limits.read_timeout_s,
            Phase.IDLE: limits.keepalive_s,
            Phase.READING: limits.read_timeout_s,
            Phase.SERVING: float("inf"),
            Phase.WRITING: limits.write_timeout_s,
            Phase.DISCARDING: limits.read_timeout_s,
            Phase.LINGERING: min(_LINGER_S, limits.read_timeout_s),
        }
        self._table = ConnectionTable(durations_s, self._on_event)
        self._acceptor = Acceptor(listener, self._table, limits.max_connections, certificates)

    def stop(self) -> None:
        """Stop accepting and finish what is open. Callable from any thread and from a signal handler."""
        self._stopping = True
        os.eventfd_write(self._wakeup, 1)

    def run(self, tick: Callable[[], None], grace_s: float, linger_s: float) -> None:
        """Serve until `stop`, then finish within `grace_s`; `tick` is called at least once a second.

        After `stop` idle connections stay open for `linger_s`, for a request that is already on its way.
        """
        self._table.watch_other(self._listener, self._acceptor.on_listener)
        self._table.watch_other(self._wakeup, self._on_wakeup)
        while not self._stopping:
            tick()
            self._step(1.0)
        self._table.unwatch_other(self._listener)
        listeners.leave(self._listener, self._acceptor.accept)
        now = time.monotonic()
        for phase in (Phase.HANDSHAKE, Phase.IDLE):
            self._table.shorten(phase, linger_s, now)
        until = now + grace_s
        while self._table.count(*_HOLDS_UP_STOP) and time.monotonic() < until:
            tick()
            self._step(0.05)
        self._table.close_all()
        for pool in (self._pool, self._probe_pool):
            pool.shutdown(wait=False)

    def _step(self, timeout_s: float) -> None:
        """Wait for events, handle them, and cut off who is overdue."""
        events = self._table.wait(timeout_s, time.monotonic())
        # A client can send its next request before the loop has heard that its last reply is out.
        self._take_served()
        self._acceptor.new_turn()
        for on_event, mask in events:
            on_event(mask)
        for connection in self._table.overdue(time.monotonic()):
            self._guarded(connection, self._overdue)

    def _on_wakeup(self, _mask: int) -> None:
        os.eventfd_read(self._wakeup)
        self._take_served()

    def _take_served(self) -> None:
        while self._served:
            connection = self._served.popleft()
            if connection.phase is Phase.SERVING:
                self._guarded(connection, self._hand_over)

    def _enter(self, connection: Connection, phase: Phase) -> None:
        self._table.enter(connection, phase, time.monotonic())

    def _guarded(self, connection: Connection, act: Callable[[Connection], None]) -> None:
        """Whatever happens on one connection ends that connection only."""
        try:
            try:
                act(connection)
            except HeadError as refusal:
                log.warning("request from %s refused: %s", connection.peer[0], refusal)
                self._refuse(connection, refusal.status, str(refusal))
        except OSError:
            self._table.close(connection)
        except Exception:
            _failed("connection from %s given up", connection.peer[0])
            self._table.close(connection)

    def _on_event(self, connection: Connection, _mask: int) -> None:
        match connection.phase:
            case Phase.IDLE | Phase.READING:
                self._guarded(connection, self._receive)
            case Phase.HANDSHAKE:
                self._guarded(connection, self._shake_hands)
            case Phase.SERVING:
                # It sends ahead or has hung up: either is looked at after its reply. The pool may have
                # finished without waking the loop while the connection was still watched.
                self._table.watch(connection, 0)
                self._take_served()
            case Phase.WRITING:
                self._guarded(connection, self._send)
            case Phase.DISCARDING | Phase.LINGERING:
                self._guarded(connection, self._discard)
            case Phase.CLOSED:
                pass

    def _shake_hands(self, connection: Connection) -> None:
        if self._acceptor.shake_hands(connection):
            self._await_request(connection)
            # It may have come together with the end of the handshake, and nobody would tell.
            self._receive(connection)

    def _await_request(self, connection: Connection) -> None:
        self._enter(connection, Phase.READING if connection.mid_record else Phase.IDLE)

    def _receive(self, connection: Connection) -> None:
        for _ in range(_READS_PER_TURN):
            received = connection.receive()
            if received is None:
                if connection.phase is Phase.IDLE and connection.mid_record:
                    self._enter(connection, Phase.READING)
                return
            if not received:
                self._hung_up(connection)
                return
            if connection.phase is Phase.IDLE:
                self._enter(connection, Phase.READING)
            self._feed(connection, received)
            if connection.phase is not Phase.READING:
                return

    def _feed(self, connection: Connection, received: bytes) -> None:
        try:
            connection.feed(received, self._cfg, self._limits.max_body_bytes)
        finally:
            self._table.count_held(connection)
        if connection.ready:
            self._serve(connection)
        else:
            self._relieve()

    def _relieve(self) -> None:
        """Cut connections until what requests and replies hold is within its bound."""
        while self._table.held_bytes > self._limits.max_held_bytes:
            connection = self._table.longest_holding()
            if connection is None:
                return
            CUT_CONNECTIONS.add("pressure")
            if connection.phase is Phase.WRITING:
                self._table.close(connection, reset=True)
            else:
                # Guarded by itself: what goes wrong with it is no fault of the connection at hand.
                self._guarded(connection, self._refuse_unfinished)

    def _hung_up(self, connection: Connection) -> None:
        if connection.framing is not None:
            connection.fault = BodyTruncated()
            self._serve(connection)
        elif connection.incoming:
            raise HeadError(400, "the request's head ended before its empty line")
        else:
            self._table.close(connection)

    def _overdue(self, connection: Connection) -> None:
        timeout = BodyTimeout(self._limits.read_timeout_s)
        match connection.phase:
            case Phase.READING if connection.framing is None:
                self._cut(connection, "head")
                connection.fault = timeout
                self._refuse(connection, timeout.status, str(timeout))
            case Phase.READING:
                self._cut(connection, "body")
                connection.fault = timeout
                self._serve(connection)
            case Phase.HANDSHAKE:
                self._acceptor.refuse(connection, "its TLS handshake is overdue")
            case Phase.WRITING:
                self._cut(connection, "reply")
                self._table.close(connection, reset=True)
            case _:
                self._table.close(connection)

    def _cut(self, connection: Connection, reason: CutReason) -> None:
        CUT_CONNECTIONS.add(reason)
        log.info("slow client %s cut off: its %s is overdue", connection.peer[0], reason)

    def _serve(self, connection: Connection) -> None:
        self._enter(connection, Phase.SERVING)
        is_probe = connection.request.path in self._limits.probes
        connection.queued = (self._probe_pool if is_probe else self._pool).submit(self._in_pool, connection)

    def _in_pool(self, connection: Connection) -> None:
        """Run the application for one request and send its reply; the only part that runs in the pool."""
        try:
            pieces, connection.keep_alive, environ = self._answered(connection)
            connection.owe(pieces)
            connection.send_patiently(self._limits.patience_s)
            # No earlier: freeing what the application left in it may take longer than sending.
            del environ
        except Exception as error:
            # An OSError is no matter of the reply's deadline: its client is gone.
            if not isinstance(error, OSError):
                _failed("the reply to %s is given up", connection.peer[0])
            connection.owe([])
            connection.keep_alive = False
        finally:
            self._served.append(connection)
            # An undisturbed kept-alive connection needs nothing from the loop before its client sends
            # again. `watched` is read after the append, and written by the loop before it looks here.
            rests = connection.keep_alive and connection.watched and not connection.outgoing
            if not rests or connection.incoming or self._stopping:
                os.eventfd_write(self._wakeup, 1)

    def _answered(self, connection: Connection) -> tuple[list[bytes], bool, Any]:
        """The reply, whether the connection may be used again, and what to free when it is sent."""
        request = connection.request
        try:
            return answer(
                self._app,
                request,
                connection.take_body(),
                (connection.peer, connection.server),
                self._cfg,
                last=lambda: self._stopping or connection.fault is not None,
            )
        except BaseException:
            # SystemExit, too: the pool would keep it to itself.
            _failed("the application failed on %s %s", request.method, request.path)
            return [error_reply(500, "internal error; the log has the details")], False, None

    def _refuse_unfinished(self, connection: Connection) -> None:
        self._refuse(connection, 503, "too many unfinished requests; send the whole request at once")

    def _refuse(self, connection: Connection, status: int, message: str) -> None:
        """Answer without the application and close."""
        connection.keep_alive = False
        connection.owe([error_reply(status, message)])
        self._send(connection)

    def _send(self, connection: Connection) -> None:
        connection.send_some()
        self._hand_over(connection)

    def _hand_over(self, connection: Connection) -> None:
        """Go on with a reply that is not all sent, or after one that is."""
        if connection.outgoing:
            if connection.phase is not Phase.WRITING:
                self._enter(connection, Phase.WRITING)
                self._relieve()
        elif not connection.keep_alive:
            connection.end_writing()
            phase = Phase.DISCARDING if connection.unread else Phase.LINGERING
            # What has been received is of no use any more, and the client may take its time to close.
            connection.reset_request()
            connection.incoming = bytearray()
            self._enter(connection, phase)
        else:
            connection.served += 1
            connection.reset_request()
            if connection.incoming:
                self._enter(connection, Phase.READING)
                self._feed(connection, b"")
            else:
                self._await_request(connection)

    def _discard(self, connection: Connection) -> None:
        if not connection.discard() or connection.discarded_bytes > self._limits.max_held_bytes:
            self._table.close(connection)


def _failed(message: str, *about: str) -> None:
    """Log the exception at hand, and count it."""
    CUT_CONNECTIONS.add("error")
    log.exception(message, *about)
