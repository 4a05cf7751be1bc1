"""Where a request ends: the head by its empty line, the body by its length or its chunks (RFC 9112).

Bytes are fed as they arrive, so that a request can be collected without a thread waiting for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from scheduler_ext.server.http.body import BodyMalformed

# Also matches an end of bare LFs: such a head never gets better, and the parser refuses it at once.
HEAD_END = re.compile(rb"\n\r?\n")
# kube-scheduler sends about 200 bytes of head.
MAX_HEAD_BYTES = 64 * 1024

_MAX_READ_BYTES = 1024 * 1024
# No control characters: a reader that ends lines at a bare LF or CR would see other chunks and trailers.
_CHUNK_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")
_MAX_CHUNK_LINE_BYTES = 8190
_MAX_TRAILER_BYTES = 8190
# Chunks this small, this often, only serve to burn the CPU of the thread that reads for all clients.
_MANY_CHUNKS = 1024
_SMALL_CHUNK_BYTES = 16


class BodyFraming(Protocol):
    """Collects one body.

    `complete` says that its end was seen; `size` counts the bytes collected; `wanted()` is how much to
    read next; `feed` takes received bytes and returns those that follow the body; `take` hands the body over,
    once.
    """

    complete: bool
    size: int

    def wanted(self) -> int: ...
    def feed(self, received: bytes) -> bytes: ...
    def take(self) -> bytes: ...


class LengthFraming:
    """A body of known length in bytes; 0 for none."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.size = 0
        self.complete = length == 0
        self._pieces: list[bytes] = []

    def wanted(self) -> int:
        return min(self.length - self.size, _MAX_READ_BYTES)

    def feed(self, received: bytes) -> bytes:
        missing = self.length - self.size
        surplus = received[missing:]
        self._pieces.append(received[:missing] if surplus else received)
        self.size += min(len(received), missing)
        self.complete = self.size == self.length
        return surplus

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


class ChunkedFraming:
    """A chunked body; trailers are read and ignored. `feed` raises BodyMalformed."""

    def __init__(self) -> None:
        self.size = 0
        self.complete = False
        self._pieces: list[bytes] = []
        self._chunks = 0
        self._missing = 0
        self._trailer_bytes = 0
        self._rest = b""
        self._step: Callable[[bytes, int], int | None] = self._size_line

    def wanted(self) -> int:
        return min(max(self._missing, 64 * 1024), _MAX_READ_BYTES)

    def feed(self, received: bytes) -> bytes:
        buffer = self._rest + received if self._rest else received
        position = 0
        while not self.complete:
            after = self._step(buffer, position)
            if after is None:
                self._rest = buffer[position:]
                return b""
            position = after
        return buffer[position:]

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    def _size_line(self, buffer: bytes, start: int) -> int | None:
        end = _line_end(buffer, start, _MAX_CHUNK_LINE_BYTES)
        if end is None:
            return None
        line = _CHUNK_SIZE_LINE.fullmatch(buffer, start, end)
        if line is None:
            raise BodyMalformed("a line before a chunk is not a hexadecimal number and its extensions")
        self._missing = int(line[1], 16)
        self._chunks += 1
        if self._chunks > _MANY_CHUNKS and self.size < self._chunks * _SMALL_CHUNK_BYTES:
            raise BodyMalformed(f"more than {_MANY_CHUNKS} chunks of under {_SMALL_CHUNK_BYTES} bytes")
        self._step = self._payload if self._missing else self._trailer
        return end + 2

    def _payload(self, buffer: bytes, start: int) -> int | None:
        piece = buffer[start : start + self._missing]
        if not piece:
            return None
        self._pieces.append(piece)
        self.size += len(piece)
        self._missing -= len(piece)
        if not self._missing:
            self._step = self._payload_end
        return start + len(piece)

    def _payload_end(self, buffer: bytes, start: int) -> int | None:
        end = buffer[start : start + 2]
        if len(end) < 2:
            return None
        if end != b"\r\n":
            raise BodyMalformed("a chunk is longer than its announced size")
        self._step = self._size_line
        return start + 2

    def _trailer(self, buffer: bytes, start: int) -> int | None:
        end = _line_end(buffer, start, _MAX_TRAILER_BYTES)
        if end is None:
            return None
        self._trailer_bytes += end + 2 - start
        if self._trailer_bytes > _MAX_TRAILER_BYTES:
            raise BodyMalformed(f"the trailers are longer than {_MAX_TRAILER_BYTES} bytes")
        self.complete = end == start
        if not self.complete and _TRAILER_LINE.fullmatch(buffer, start, end) is None:
            raise BodyMalformed("a trailer is not a header")
        return end + 2


def _line_end(buffer: bytes, start: int, max_bytes: int) -> int | None:
    """Where the line from `start` ends, None when its end has not arrived."""
    end = buffer.find(b"\r\n", start)
    if end < 0:
        if len(buffer) - start > max_bytes:
            raise BodyMalformed(f"a line is longer than {max_bytes} bytes")
        return None
    return end
