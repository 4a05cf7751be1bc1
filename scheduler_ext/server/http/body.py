"""A request's body: received whole before the application runs, or the reason why it is not there.

Exception hierarchy:

BodyError
  + BodyTooLarge    413: larger than the limit
  + BodyTruncated   400: the client ended or hung up before the announced end
  + BodyMalformed   400: the chunked transfer coding cannot be read
  + BodyTimeout     408: not complete within the read timeout
"""

from __future__ import annotations

import io
import time
from collections.abc import MutableMapping
from typing import Any, ClassVar

BODY_RECEIVED = "scheduler_ext.body_received"
"""environ key: time.monotonic() at the last byte of the body, from which processing deadlines count."""


class BodyError(Exception):
    """The body of a request cannot be had; str() is fit to be sent to the client."""

    status: ClassVar[int] = 400


class BodyTooLarge(BodyError):  # noqa: N818 (the base says it is an error)
    """The body is larger than the limit."""

    status = 413

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        super().__init__(f"the request body is larger than {limit_bytes} bytes")


class BodyTruncated(BodyError):  # noqa: N818 (the base says it is an error)
    """The client ended its side before the announced end of the body."""

    def __init__(self) -> None:
        super().__init__("the request body ended before its announced length")


class BodyMalformed(BodyError):  # noqa: N818 (the base says it is an error)
    """The body's chunked transfer coding cannot be read."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"the request body's chunked transfer coding is malformed: {detail}")


class BodyTimeout(BodyError):  # noqa: N818 (the base says it is an error)
    """The body did not arrive within the read timeout."""

    status = 408

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"the request did not arrive whole within {timeout_s:g} s")


class ReceivedBody(io.BytesIO):
    """wsgi.input for a body that has been received whole."""

    def __init__(self, content: bytes, received_at: float) -> None:
        super().__init__(content)
        self.content = content
        self.received_at = received_at


class MissingBody(io.RawIOBase):
    """wsgi.input for a body that could not be received: every read raises the reason."""

    def __init__(self, error: BodyError) -> None:
        super().__init__()
        self.error = error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        raise self.error


def received_at(environ: MutableMapping[str, Any]) -> float:
    """time.monotonic() when the whole request was here; now, where no more of it comes."""
    source = environ["wsgi.input"]
    return source.received_at if isinstance(source, ReceivedBody) else time.monotonic()


def read_body(environ: MutableMapping[str, Any], limit_bytes: int) -> bytes:
    """The whole body of a request of at most `limit_bytes`, and the time of its last byte in environ.

    Sets environ[BODY_RECEIVED]; may be called again, with the same result. Raises BodyTooLarge,
    BodyTruncated, BodyMalformed or BodyTimeout; the connection is then closed after the reply, which
    reaches even a client that is still sending.
    """
    source = environ["wsgi.input"]
    if isinstance(source, MissingBody):
        environ[BODY_RECEIVED] = time.monotonic()
        if isinstance(source.error, BodyTooLarge):
            # The listener refused it by a limit of its own: this one may be lower, and is the one to keep.
            raise BodyTooLarge(min(limit_bytes, source.error.limit_bytes))
        raise source.error
    if isinstance(source, ReceivedBody):
        content = source.content
        environ[BODY_RECEIVED] = source.received_at
    else:
        content = _received_from(environ, source, limit_bytes)
    if len(content) > limit_bytes:
        raise BodyTooLarge(limit_bytes)
    return content


def _received_from(environ: MutableMapping[str, Any], stream: Any, limit_bytes: int) -> bytes:
    """The body from a stream, which can be read once only, so its outcome takes the stream's place."""
    try:
        content = _read_stream(environ, stream, limit_bytes)
    except BodyError as error:
        environ["wsgi.input"] = MissingBody(error)
        raise
    finally:
        received_at = environ[BODY_RECEIVED] = time.monotonic()
    environ["wsgi.input"] = ReceivedBody(content, received_at)
    return content


def _read_stream(environ: MutableMapping[str, Any], stream: Any, limit_bytes: int) -> bytes:
    """The body from any other WSGI server, a test client for example."""
    announced = environ.get("CONTENT_LENGTH") or ""
    if not announced.isdecimal():
        return bytes(stream.read(limit_bytes + 1)) if environ.get("wsgi.input_terminated") else b""
    length = int(announced)
    if length > limit_bytes:
        raise BodyTooLarge(limit_bytes)
    content = bytes(stream.read(length))
    if len(content) < length:
        raise BodyTruncated
    return content
