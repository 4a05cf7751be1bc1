"""One keep-alive HTTP/1.1 connection on a raw, non-blocking socket, timed from first to last byte.

A benchmark client must cost little beside the server: no library, one reused buffer, TCP_NODELAY, and a reply
counts as received when its last byte is read (Content-Length, chunked, or end of stream).
"""

from __future__ import annotations

import gzip
import re
import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r]*chunked", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:[^\r]*close", re.IGNORECASE)
_GZIP = re.compile(rb"\r\ncontent-encoding:[^\r]*gzip", re.IGNORECASE)
_UNTIL_EOF = -1
_CHUNKS = -2


@dataclass(frozen=True, slots=True)
class Reply:
    """One answered request: HTTP status, body, nanoseconds taken; `error` is empty if the reply was
    complete.
    """

    status: int
    body: bytes
    elapsed_ns: int
    error: str = ""


class Connection:
    """A client connection to the origin of `url`; it connects on first use and again after a close."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"url must be http://HOST[:PORT][/PATH], got {url!r}")
        self._address = (parts.hostname, parts.port or 80)
        self._host = parts.netloc
        self._socket: socket.socket | None = None
        self._buffer = bytearray(1 << 20)
        self._received = 0
        self._unsent = memoryview(b"")
        self._started_ns = 0
        self._head_end = 0
        self._body_length = 0
        self._chunk_start = 0
        self.connects = 0

    def request(self, path: str, body: bytes) -> bytes:
        """The request's bytes as Go's HTTP client writes them."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nUser-Agent: Go-http-client/1.1\r\n"
            f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
        )
        return head.encode("ascii") + body

    def begin(self, request: bytes) -> None:
        """Start the clock and send as much as the socket takes; raises OSError when it cannot connect."""
        self._received = self._head_end = 0
        self._unsent = memoryview(request)
        self._started_ns = time.perf_counter_ns()
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=10)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setblocking(False)
            self.connects += 1
        self.send()

    def fileno(self) -> int:
        """The socket's descriptor, for poll; raises ConnectionError when closed."""
        if self._socket is None:
            raise ConnectionError("the connection is closed")
        return self._socket.fileno()

    @property
    def sending(self) -> bool:
        """Whether part of the request still waits for room in the socket's buffer."""
        return len(self._unsent) > 0

    def send(self) -> None:
        """Send what the socket takes now."""
        assert self._socket is not None
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return

    def receive(self) -> Reply | None:
        """Read the available bytes; the Reply if it is complete, None if more must come."""
        assert self._socket is not None
        while True:
            if self._received == len(self._buffer):
                self._buffer.extend(bytes(len(self._buffer)))
            try:
                count = self._socket.recv_into(memoryview(self._buffer)[self._received :])
            except BlockingIOError:
                return None
            self._received += count
            if self._is_whole(at_end=count == 0):
                return self._reply(time.perf_counter_ns() - self._started_ns)
            if count == 0:
                raise ConnectionError(
                    f"the server closed the connection {self._received} bytes into its reply"
                )

    def _is_whole(self, at_end: bool) -> bool:
        if not self._head_end and not self._read_head():
            return False
        if self._body_length >= 0:
            return self._received >= self._head_end + self._body_length
        if self._body_length == _UNTIL_EOF:
            return at_end
        return self._skip_chunks()

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", 0, self._received)
        if end < 0:
            return False
        self._head_end = self._chunk_start = end + 4
        length = _CONTENT_LENGTH.search(self._buffer, 0, end)
        if length:
            self._body_length = int(length[1])
        else:
            self._body_length = _CHUNKS if _CHUNKED.search(self._buffer, 0, end) else _UNTIL_EOF
        return True

    def _skip_chunks(self) -> bool:
        """Advance over whole chunks; True once the last one (size 0, no trailers) is there."""
        while True:
            line_end = self._buffer.find(b"\r\n", self._chunk_start, self._received)
            if line_end < 0:
                return False
            size = int(bytes(self._buffer[self._chunk_start : line_end]).split(b";")[0], 16)
            chunk_end = line_end + 2 + size + 2
            if chunk_end > self._received:
                return False
            if size == 0:
                return True
            self._chunk_start = chunk_end

    def _reply(self, elapsed_ns: int) -> Reply:
        head = bytes(self._buffer[: self._head_end])
        body = bytes(self._buffer[self._head_end : self._received])
        if self._body_length == _CHUNKS:
            body = _joined_chunks(body)
        if self._body_length == _UNTIL_EOF or self.sending or _CLOSE.search(head):
            self.close()
        if _GZIP.search(head):
            body = gzip.decompress(body)
        return Reply(int(head.split(b" ", 2)[1]), body, elapsed_ns)

    def close(self) -> None:
        """Close the socket; the next request connects again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _joined_chunks(body: bytes) -> bytes:
    parts: list[bytes] = []
    start = 0
    while True:
        line_end = body.index(b"\r\n", start)
        size = int(body[start:line_end].split(b";")[0], 16)
        if size == 0:
            return b"".join(parts)
        parts.append(body[line_end + 2 : line_end + 2 + size])
        start = line_end + 2 + size + 2


def exchange(connections: Sequence[Connection], requests: Sequence[bytes], timeout_s: float) -> list[Reply]:
    """Send one request on each connection at once and wait for all replies, in the order of the requests.

    A request that fails or is unanswered after `timeout_s` yields a Reply with status 0 and its error, and
    its connection is closed. There may be fewer requests than connections.
    """
    replies: list[Reply | None] = [None] * len(requests)
    poll = select.poll()
    open_at: dict[int, int] = {}
    for at, request in enumerate(requests):
        try:
            connections[at].begin(request)
            fd = connections[at].fileno()
            poll.register(fd, select.POLLIN | (select.POLLOUT if connections[at].sending else 0))
            open_at[fd] = at
        except OSError as error:
            replies[at] = _failed(connections[at], str(error))
    deadline = time.monotonic() + timeout_s
    while open_at:
        for fd, events in poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            at = open_at[fd]
            replies[at] = _advance(connections[at], events)
            if replies[at] is not None:
                poll.unregister(fd)
                del open_at[fd]
            elif events & select.POLLOUT and not connections[at].sending:
                poll.modify(fd, select.POLLIN)
        if time.monotonic() >= deadline:
            for at in open_at.values():
                replies[at] = _failed(connections[at], f"no whole reply within {timeout_s:g} s")
            break
    return [reply for reply in replies if reply is not None]


def _advance(connection: Connection, events: int) -> Reply | None:
    try:
        if events & select.POLLOUT:
            connection.send()
        if events & ~select.POLLOUT:
            return connection.receive()
    except (OSError, ValueError) as error:
        return _failed(connection, str(error))
    return None


def _failed(connection: Connection, error: str) -> Reply:
    connection.close()
    return Reply(status=0, body=b"", elapsed_ns=0, error=error)
