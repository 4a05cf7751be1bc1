"""One client's connection: a coroutine that receives requests and sends replies, with total deadlines."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
import io
import logging
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, Literal, Protocol

from scheduler_ext.counters import Counts
from scheduler_ext.server.http import exchange
from scheduler_ext.server.http.body import BODY, BODY_RECEIVED, BodyError, BodyTooLarge, receive_body
from scheduler_ext.server.http.tls import ServerCertificates, TlsProtocol, log_refusal
from scheduler_ext.server.server_options import ListenerLimits

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger(__name__)

_SLICE_BYTES = 64 * 1024
# After its last reply a client has this long to close first, which spares it a reset.
LINGER_S = 2.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


# head, body: the request did not arrive in time. reply: the client did not read its reply in time. tls: the
# handshake failed or did not end in time. pressure: too many connections, or too many bytes of requests and
# replies. error: an unexpected exception, which is in the log.
CutReason = Literal["head", "body", "reply", "tls", "pressure", "error"]


class Phase(enum.Enum):
    """What a connection waits for, in the order in which connections make room for new ones."""

    CLOSING = "the client to close, after its last reply"
    HANDSHAKE = "the end of the TLS handshake"
    READING = "the rest of a request"
    IDLE = "the first byte of a request"
    WRITING = "the client to read its reply"
    SERVING = "the application"


class Listener(Protocol):
    """The listener of a connection: its application and limits, and the counts of all its connections."""

    app: WSGIApplication
    limits: ListenerLimits
    cfg: Any
    certificates: ServerCertificates | None
    address: Any
    stopping: bool
    durations_s: dict[Phase, float]
    answered: deque[Connection]

    @property
    def cut(self) -> Counts: ...

    def settle(self) -> None: ...
    def has_room(self, count: int) -> bool: ...
    def pool(self, path: str) -> Executor: ...
    def enter(self, connection: Connection, phase: Phase) -> None: ...
    def forget(self, connection: Connection) -> None: ...
    def hold(self, connection: Connection, count: int) -> None: ...
    def relieve(self) -> None: ...


class _Streams(asyncio.StreamReaderProtocol):
    """The streams of a connection. A request that arrives whole, as most do, does not pass through them."""

    def __init__(self, connection: Connection, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self._connection = connection

    def data_received(self, data: bytes) -> None:
        if not self._connection.take(data):
            super().data_received(data)
            self._connection.wake()

    def eof_received(self) -> bool | None:
        stays_open = super().eof_received()
        self._connection.wake()
        return stays_open

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connection.wake()


class Connection:
    """One connection of a listener. It runs on the event loop; `_in_pool` and what it calls, on a thread."""

    def __init__(self, server: Listener, sock: socket.socket, peer: Any) -> None:
        self.phase = Phase.HANDSHAKE
        self.deadline = asyncio.timeout(None)
        self.served = 0
        # The bytes of a request that is not answered, and the reply that is not sent.
        self.held_bytes = 0
        self.reply: list[memoryview] = []
        self._job: Future[None] | None = None
        self._server, self._sock, self._peer = server, sock, peer
        # The loop closes its own when the client hangs up, and the number could be that of another client.
        self._pool_sock = sock.dup()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = asyncio.StreamReader(exchange.MAX_HEAD_BYTES, self._loop)
        # Whether the client may be busy sending, and read its reply only afterwards.
        self._sending = False
        # What the coroutine waits for: None, bytes to read; else the reply that is left to send, and whether
        # another request may follow.
        self._turn: asyncio.Future[tuple[list[memoryview], bool] | None] = self._loop.create_future()

    def start(self) -> None:
        self.task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        """Serve the client until the connection ends; an error ends this connection and no other."""
        try:
            await self._open()
            await self._converse()
            await self._linger()
        except OSError:
            pass
        except Exception:
            self._server.cut.inc("error")
            log.exception("connection from %s given up", self._peer[0])
        finally:
            self._server.forget(self)
            self._pool_sock.close()
            if self._transport is None:
                self._sock.close()
            else:
                self._transport.abort()

    def refuse(self, error: exchange.HeadError) -> None:
        """Have the pending or next read raise an error."""
        self._reader.set_exception(error)

    def withdraw(self) -> bool:
        """Whether the request could be taken back from the queue of the pool."""
        return self._job is not None and self._job.cancel()

    def reset_at_close(self) -> None:
        """Drop the unsent reply, which the kernel would otherwise keep for minutes."""
        with contextlib.suppress(OSError):
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)

    def _within(self, phase: Phase) -> asyncio.Timeout:
        """Enter a phase, with the deadline that the server gives to it."""
        self._server.enter(self, phase)
        self.deadline = asyncio.timeout(self._server.durations_s[phase])
        return self.deadline

    async def _open(self) -> None:
        """Make the streams, after the TLS handshake if there is one. Raises OSError."""
        streams = _Streams(self, self._reader)
        certificates = self._server.certificates
        protocol = TlsProtocol(self._loop, streams, certificates.context) if certificates else streams
        try:
            async with self._within(Phase.HANDSHAKE):
                self._transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, self._sock)
                transport = await protocol.agreed() if isinstance(protocol, TlsProtocol) else self._transport
        except (ssl.SSLError, TimeoutError) as error:
            self._server.cut.inc("tls")
            log_refusal(error, self._peer[0])
            raise
        # What one read may add to the bytes that are counted.
        self._transport.max_size = self._server.limits.read_bytes  # type: ignore[attr-defined]
        # A reply counts as sent when the kernel has all of it, but for a slice under TLS.
        transport.set_write_buffer_limits(high=1)
        self._writer = asyncio.StreamWriter(transport, streams, self._reader, self._loop)

    async def _converse(self) -> None:
        """Answer one request after the other. Raises OSError."""
        refusal: exchange.HeadError | None = None
        try:
            while await self._exchange():
                pass
        except exchange.HeadError as error:
            refusal = error
        if refusal:
            # The others are counted as cut off.
            if refusal.status not in (408, 503):
                log.warning("request from %s refused: %s", self._peer[0], refusal)
            self._sending = refusal.sending
            self._server.hold(self, -self.held_bytes)
            # Reading goes on after `refuse`.
            self._reader.set_exception(None)  # type: ignore[arg-type]
            await self._send([exchange.error_reply(refusal.status, str(refusal))])

    async def _exchange(self) -> bool:
        """Wait for the client or for the application, and do what is due; whether the connection stays open.
        Raises HeadError, OSError."""
        self._turn = self._loop.create_future()
        try:
            async with asyncio.timeout(None) as self.deadline:
                if self.phase is not Phase.SERVING:
                    self._await_request()
                reply = await self._turn
        except TimeoutError:
            return False
        if reply is None:
            return await self._receive()
        rest, keep_alive = reply
        if rest:
            await self._send(rest)
        return keep_alive

    def _await_request(self) -> None:
        self._server.enter(self, Phase.IDLE)
        self.deadline.reschedule(self._loop.time() + self._server.durations_s[Phase.IDLE])
        if self._is_ahead():
            self._turn.set_result(None)

    def _is_ahead(self) -> bool:
        """Whether the client has sent what is not read, or has ended its side."""
        reader: Any = self._reader
        return bool(reader._buffer) or reader.at_eof() or reader.exception() is not None

    def wake(self) -> None:
        """The streams have changed."""
        self._server.settle()
        if self.phase is Phase.IDLE and not self._turn.done():
            self._turn.set_result(None)

    def take(self, data: bytes) -> bool:
        """Serve the request that these bytes are, without the coroutine; False when they are not one."""
        self._server.settle()
        if self.phase is not Phase.IDLE or self._turn.done() or not self._server.has_room(len(data)):
            return False
        whole = exchange.whole_request(data, self._peer, self._server.cfg)
        if whole is None or len(whole[1]) > self._server.limits.max_body_bytes:
            return False
        self.deadline.reschedule(None)
        self._server.hold(self, len(whole[1]))
        self._serve(*whole)
        return True

    async def _receive(self) -> bool:
        """Receive a request and serve it; False when the client has ended its side. Raises HeadError,
        OSError."""
        request = None
        try:
            async with self._within(Phase.READING):
                head = await exchange.read_head(self._reader)
                if not head:
                    return False
                request, length, expects_continue = exchange.parse_head(head, self._peer, self._server.cfg)
                body = await self._body(length, expects_continue)
        except TimeoutError:
            self._note_cut("head" if request is None else "body")
            late = f"the request did not arrive whole within {self._server.limits.read_timeout_s:g} s"
            if request is None:
                raise exchange.HeadError(408, late, sending=False) from None
            body = BodyError(408, late)
        self._serve(request, body)
        return True

    def _serve(self, request: Any, body: bytes | BodyError) -> None:
        """Answer a request on a thread of the pool; the job itself ends after the reply is on its way."""
        self._server.enter(self, Phase.SERVING)
        self._job = self._server.pool(request.path).submit(self._in_pool, request, body, time.monotonic())

    def settle(self, rest: list[memoryview], keep_alive: bool, error: Exception | None = None) -> None:
        """A thread has answered the request, and has sent the reply but for a rest, or failed to send it."""
        if self._turn.done():
            return
        self._server.hold(self, -self.held_bytes)
        self.served += 1
        if error is not None:
            self._turn.set_exception(error)
        elif rest or not keep_alive:
            self._turn.set_result((rest, keep_alive))
        else:
            self._await_request()

    async def _body(self, length: int | None, expects_continue: bool) -> bytes | BodyError:
        """The body, or the reason why it is missing, which is for the application to tell the client."""
        limit_bytes = self._server.limits.max_body_bytes
        try:
            if length is not None and length > limit_bytes:
                raise BodyTooLarge(limit_bytes)
            if expects_continue:
                self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            hold = functools.partial(self._server.hold, self)
            body = await receive_body(self._reader, length, limit_bytes, hold)
        except BodyError as error:
            self._sending = not self._reader.at_eof()
            return error
        if refusal := self._reader.exception():
            raise refusal
        return body

    def _in_pool(self, request: Any, body: bytes | BodyError, received_at: float) -> None:
        """Have the application answer one request, and send what the kernel takes at once."""
        server, failed = self._server, isinstance(body, BodyError)
        source = io.BytesIO(b"" if isinstance(body, BodyError) else body)
        more = {BODY: body, BODY_RECEIVED: received_at, "wsgi.input": source, "wsgi.multithread": True}
        addresses = self._peer, server.address
        # Freed after the reply, because freeing what the application left in it may take longer than sending.
        environ = None
        try:
            pieces, keep_alive, environ = exchange.answer(
                server.app, request, more, addresses, server.cfg, lambda: server.stopping or failed
            )
            rest = [memoryview(piece) for piece in pieces if piece]
        except BaseException:
            # SystemExit, too: the pool would keep it to itself.
            log.exception("the application failed on %s %s", request.method, request.path)
            self._call(server.cut.inc, "error")
            rest, keep_alive = [exchange.error_reply(500, "internal error; the log has the details")], False
        try:
            if not server.certificates and not self._writer.transport.get_write_buffer_size():
                self._send_now(rest)
        except Exception as error:
            self._call(self.settle, rest, False, error)
            return
        if rest or not keep_alive:
            self._call(self.settle, rest, keep_alive)
            return
        # The client has its reply. The loop, which would compete with other requests for the interpreter, is
        # not woken, unless the next request has come already.
        del environ
        server.answered.append(self)
        if self._is_ahead() or server.stopping:
            self._call(server.settle)

    def _send_now(self, rest: list[memoryview]) -> None:
        """Send what the kernel takes, which spares a reply the way over the event loop."""
        with contextlib.suppress(BlockingIOError):
            while rest:
                sent = self._pool_sock.sendmsg(rest[:16])
                while rest and sent >= len(rest[0]):
                    sent -= len(rest.pop(0))
                if sent:
                    rest[0] = rest[0][sent:]

    def _call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Have the event loop call a function; it is closed when the grace period is over."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    async def _send(self, pieces: list[memoryview]) -> None:
        """Send a reply. Raises OSError when the client does not read it in time."""
        self.reply = pieces
        try:
            async with self._within(Phase.WRITING):
                self._server.relieve()
                for piece in pieces:
                    for start in range(0, len(piece), _SLICE_BYTES):
                        self._writer.write(piece[start : start + _SLICE_BYTES])
                        await self._writer.drain()
        except TimeoutError:
            self._note_cut("reply")
            self.reset_at_close()
            raise
        finally:
            self.reply = []

    def _note_cut(self, reason: CutReason) -> None:
        self._server.cut.inc(reason)
        log.info("slow client %s cut off: its %s is overdue", self._peer[0], reason)

    async def _linger(self) -> None:
        """End the connection after the client has seen its last reply (RFC 9112, 9.6). Raises OSError."""
        async with self._within(Phase.CLOSING):
            one_sided = self._writer.can_write_eof()
            if one_sided:
                self._writer.write_eof()
            if one_sided or self._sending:
                # TLS cannot end one side only, so its client has to pause.
                await self._discard(None if one_sided and self._sending else LINGER_S)
            self._writer.close()
            await self._writer.wait_closed()

    async def _discard(self, pause_s: float | None) -> None:
        """Read until the client ends its side, pauses for so long, or has sent too much."""
        discarded = 0
        with contextlib.suppress(TimeoutError):
            while discarded <= self._server.limits.max_held_bytes:
                received = await asyncio.wait_for(self._reader.read(_SLICE_BYTES), pause_s)
                if not received:
                    return
                discarded += len(received)
