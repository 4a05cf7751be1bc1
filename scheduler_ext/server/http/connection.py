"""One client's connection: what it has sent, what it is still owed, and which phase it is in."""

from __future__ import annotations

import contextlib
import enum
import select
import socket
import struct
import time
from concurrent.futures import Future
from typing import Any

from scheduler_ext.server.http.body import (
    BodyError,
    BodyMalformed,
    BodyTimeout,
    BodyTooLarge,
    BodyTruncated,
    MissingBody,
    ReceivedBody,
)
from scheduler_ext.server.http.exchange import HeadError, parse_head, take_expectation
from scheduler_ext.server.http.framing import HEAD_END, MAX_HEAD_BYTES, BodyFraming
from scheduler_ext.server.http.tls_socket import TlsSocket

# Larger first reads measured slower: the allocation and the copy of what follows the head.
_HEAD_READ_BYTES = 64 * 1024
_DISCARD_READ_BYTES = 256 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Phase(enum.Enum):
    """What a connection waits for; every phase but SERVING has a deadline."""

    HANDSHAKE = "the end of the TLS handshake"
    IDLE = "the first byte of a request"
    READING = "the rest of a request"
    SERVING = "the application"
    WRITING = "the client to take the reply"
    DISCARDING = "the end of a body that is not wanted, so that the client gets to see the reply"
    LINGERING = "the client to close after its last reply"
    CLOSED = "nothing"


_HOLDING = (Phase.READING, Phase.SERVING)


class Connection:
    """The state of one connection. Owned by its loop's thread, and by a pool thread while SERVING."""

    __slots__ = (
        "_scanned",
        "counted_bytes",
        "deadline",
        "discarded_bytes",
        "fault",
        "framing",
        "incoming",
        "keep_alive",
        "outgoing",
        "owed",
        "peer",
        "phase",
        "queued",
        "received_at",
        "request",
        "served",
        "server",
        "sock",
        "watched",
    )

    def __init__(self, sock: socket.socket | TlsSocket, peer: Any, server: Any) -> None:
        self.sock = sock
        self.peer = peer
        self.server = server
        self.phase = Phase.CLOSED
        self.deadline = 0.0
        self.watched = 0
        self.counted_bytes = 0
        self.owed: list[Any] = []
        self.queued: Future[None] | None = None
        self.served = 0
        self.discarded_bytes = 0
        self.incoming = bytearray()
        self.outgoing: list[memoryview] = []
        self.reset_request()
        sock.setblocking(False)

    def reset_request(self) -> None:
        """Forget the last request; bytes that followed it stay."""
        self._scanned = 0
        self.request: Any = None
        self.framing: BodyFraming | None = None
        self.fault: BodyError | None = None
        self.received_at = 0.0
        self.keep_alive = False

    @property
    def held_bytes(self) -> int:
        """How much of a request is in memory that is not answered yet."""
        return len(self.incoming) + (self.framing.size if self.framing and self.phase in _HOLDING else 0)

    @property
    def mid_record(self) -> bool:
        """Whether a request has begun with part of a TLS record, of which nothing can be read yet."""
        return isinstance(self.sock, TlsSocket) and self.sock.mid_record

    @property
    def ready(self) -> bool:
        """Whether the application can be asked: the request is whole, or known never to become so."""
        return self.framing is not None and (self.framing.complete or self.fault is not None)

    @property
    def unread(self) -> bool:
        """Whether the client may be busy sending what nobody wants, and look at its reply only then."""
        if isinstance(self.fault, (BodyTimeout, BodyTruncated)):
            return False
        return self.framing is None or not self.framing.complete

    def receive(self) -> bytes | None:
        """What the socket has now: None when nothing, b"" when the client ended its side.

        Raises OSError when the connection is broken.
        """
        try:
            return self.sock.recv(self.framing.wanted() if self.framing else _HEAD_READ_BYTES)
        except BlockingIOError:
            return None

    def feed(self, received: bytes, cfg: Any, max_body_bytes: int) -> None:
        """Take received bytes. Raises HeadError."""
        if self.framing is None:
            self.incoming += received
            self._find_head(cfg, max_body_bytes)
        else:
            self._feed_body(received, max_body_bytes)

    def _find_head(self, cfg: Any, max_body_bytes: int) -> None:
        # Only bytes that HTTP can start with: a TLS hello, for one, would otherwise wait for its deadline.
        if not self.incoming[:1].isalpha() and self.incoming[:1] != b"\r":
            raise HeadError(400, "this is not HTTP: expected a request such as POST /filter HTTP/1.1")
        end = HEAD_END.search(self.incoming, self._scanned)
        if end is None:
            self._scanned = max(0, len(self.incoming) - 2)
            if len(self.incoming) > MAX_HEAD_BYTES:
                raise HeadError(431, f"the request's head is larger than {MAX_HEAD_BYTES} bytes")
            return
        head, rest = bytes(self.incoming[: end.end()]), bytes(self.incoming[end.end() :])
        self.incoming = bytearray()
        self.request, self.framing = parse_head(head, self.peer, cfg)
        expects_continue = take_expectation(self.request)
        if getattr(self.framing, "length", 0) > max_body_bytes:
            self.fault = BodyTooLarge(max_body_bytes)
            return
        if expects_continue and not rest:
            with contextlib.suppress(BlockingIOError):
                self.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self.framing.complete:
            self.incoming += rest
            self.received_at = time.monotonic()
        elif rest:
            self._feed_body(rest, max_body_bytes)

    def _feed_body(self, received: bytes, max_body_bytes: int) -> None:
        assert self.framing is not None
        try:
            self.incoming += self.framing.feed(received)
        except BodyMalformed as error:
            self.fault = error
        if self.framing.size > max_body_bytes:
            self.fault = BodyTooLarge(max_body_bytes)
        self.received_at = time.monotonic()

    def take_body(self) -> ReceivedBody | MissingBody:
        """The body for the application, handed over once."""
        if self.fault is not None:
            return MissingBody(self.fault)
        assert self.framing is not None
        return ReceivedBody(self.framing.take(), self.received_at)

    def owe(self, pieces: list[bytes]) -> None:
        """Set the reply to send."""
        self.outgoing = [memoryview(piece) for piece in pieces if piece]

    def send_some(self) -> None:
        """Send what the socket takes now. Raises OSError when the connection is broken."""
        while self.outgoing:
            try:
                # Head and body leave in one segment where they fit: one wake-up for the client.
                sent = self.sock.sendmsg(self.outgoing[:16])
            except BlockingIOError:
                return
            while self.outgoing and sent >= len(self.outgoing[0]):
                sent -= len(self.outgoing.pop(0))
            if sent:
                self.outgoing[0] = self.outgoing[0][sent:]

    def send_patiently(self, patience_s: float) -> None:
        """Send, and wait up to `patience_s` for a client that is reading."""
        until = time.monotonic() + patience_s
        self.send_some()
        if not self.outgoing:
            return
        poller = select.poll()
        poller.register(self.sock, select.POLLOUT)
        while self.outgoing and (left_s := until - time.monotonic()) > 0:
            poller.poll(left_s * 1000)
            self.send_some()

    def discard(self) -> bool:
        """Throw away what the client sends; False when it has ended its side."""
        try:
            received = self.sock.recv(_DISCARD_READ_BYTES)
        except BlockingIOError:
            return True
        self.discarded_bytes += len(received)
        return bool(received)

    def end_writing(self) -> None:
        """Tell the client that no more replies follow."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def close(self, reset: bool = False) -> None:
        """Close; `reset` also drops the unsent reply, which the kernel would otherwise keep for minutes."""
        if reset:
            with contextlib.suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.sock.close()
        self.phase = Phase.CLOSED
        self.incoming = bytearray()
        self.outgoing = []
        self.framing = None
