"""A request's body: received whole before the application runs, or the reason why it is missing."""

import re
import time
from asyncio import IncompleteReadError, LimitOverrunError, StreamReader
from collections.abc import AsyncIterator, Callable, MutableMapping
from typing import Any

BODY_RECEIVED = "scheduler_ext.body_received"
"""environ key: time.monotonic() at the last byte of the body, from which processing deadlines count."""
BODY = "scheduler_ext.body"
"""environ key: the body (bytes), or the BodyError that stands in its place."""

# Without control characters: a reader that ends lines at a bare LF or CR would see other chunks and trailers.
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]{,8000})?\r\n")
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]{,8000}\r\n")
_MAX_TRAILER_BYTES = 8190
# Chunks this small, this often, only serve to burn the CPU of the event loop.
_MANY_CHUNKS = 1024
_SMALL_CHUNK_BYTES = 16


class BodyError(Exception):
    """The body of a request is not available; `status` and str() are for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class BodyTooLarge(BodyError):  # noqa: N818 (the base says it is an error)
    """The body is larger than the limit."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(413, f"the request body is larger than {limit_bytes} bytes")
        self.limit_bytes = limit_bytes


def _malformed(detail: str) -> BodyError:
    return BodyError(400, f"the request body's chunked transfer coding is malformed: {detail}")


async def receive_body(
    reader: StreamReader, length: int | None, limit_bytes: int, hold: Callable[[int], None]
) -> bytes:
    """The body of that many bytes; None: a chunked one. `hold` is called with the bytes that each read adds.
    Raises BodyError."""
    pieces: list[bytes] = []
    size = 0
    try:
        async for missing in _chunks(reader, length):
            size += missing
            if size > limit_bytes:
                raise BodyTooLarge(limit_bytes)
            while missing:
                pieces.append(await reader.read(missing))
                if not pieces[-1]:
                    raise IncompleteReadError(b"", missing)
                missing -= len(pieces[-1])
                hold(len(pieces[-1]))
    except IncompleteReadError:
        raise BodyError(400, "the request body ended before its announced length") from None
    except LimitOverrunError:
        raise _malformed("a line is too long") from None
    return b"".join(pieces)


async def _chunks(reader: StreamReader, length: int | None) -> AsyncIterator[int]:
    """The size of each chunk, to be read before the next one is asked for; a length is one chunk."""
    if length is not None:
        yield length
        return
    number = size = 0
    while True:
        line = _CHUNK_SIZE.fullmatch(await reader.readuntil(b"\r\n"))
        if line is None:
            raise _malformed("a line before a chunk is not a hexadecimal number and its extensions")
        chunk = int(line[1], 16)
        if not chunk:
            break
        number += 1
        size += chunk
        if number > _MANY_CHUNKS and size < number * _SMALL_CHUNK_BYTES:
            raise _malformed(f"more than {_MANY_CHUNKS} chunks of under {_SMALL_CHUNK_BYTES} bytes")
        yield chunk
        if await reader.readexactly(2) != b"\r\n":
            raise _malformed("a chunk is longer than its announced size")
    # The trailers are ignored.
    size = 0
    while (trailer := await reader.readuntil(b"\r\n")) != b"\r\n":
        size += len(trailer)
        if size > _MAX_TRAILER_BYTES or not _TRAILER.fullmatch(trailer):
            raise _malformed("a trailer is too long or not a header")


def received_at(environ: MutableMapping[str, Any]) -> float:
    """time.monotonic() at the last byte of the request; now, under any other WSGI server."""
    return float(environ.get(BODY_RECEIVED) or time.monotonic())


def read_body(environ: MutableMapping[str, Any], limit_bytes: int) -> bytes:
    """The whole body of a request of at most `limit_bytes`; environ[BODY_RECEIVED] is set afterwards. Raises
    BodyError; the connection closes after the reply, which reaches a client that is still sending."""
    if BODY not in environ:
        # Under any other WSGI server, a test client for example.
        environ[BODY] = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ[BODY_RECEIVED] = time.monotonic()
    body: bytes | BodyError = environ[BODY]
    if isinstance(body, BodyTooLarge):
        # The limit of the listener, which may be higher.
        raise BodyTooLarge(min(limit_bytes, body.limit_bytes))
    if isinstance(body, BodyError):
        raise body
    if len(body) > limit_bytes:
        raise BodyTooLarge(limit_bytes)
    return body
