"""One request through a WSGI application, with gunicorn's parser and response writer on both sides.

From gunicorn this uses what each of its worker classes uses: `gunicorn.http.message.Request` and
`gunicorn.http.wsgi.create`, which have no documented stability. tests/server/http/test_gunicorn_contract.py
fails when they change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from gunicorn.http import errors, wsgi
from gunicorn.http.body import ChunkedReader
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader

from scheduler_ext.server.http.body import MissingBody, ReceivedBody
from scheduler_ext.server.http.framing import BodyFraming, ChunkedFraming, LengthFraming

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

# Whatever is not listed is a 400.
_PARSE_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (errors.LimitRequestLine, 414),
    (errors.LimitRequestHeaders, 431),
    (errors.ExpectationFailed, 417),
    (errors.UnsupportedTransferCoding, 501),
)
# RFC 9112, 3.2: a path, a URL whose authority is group 1, or the asterisk, which gunicorn takes with OPTIONS
# only. The authority alone is for proxies.
_TARGET = re.compile(r"/[^#]*|https?://([^/?#]*)(?:[/?][^#]*)?|\*", re.IGNORECASE)
# RFC 3986, 3.2.2, without a user.
_HOST = re.compile(r"(?:[\w.~%!$&'()*+,;=-]*|\[[\w.:%~-]+\])(?::[0-9]*)?", re.ASCII)
_MAX_DETAIL_CHARACTERS = 200
# Browsers ask the inspection listener, and what such an error quotes is from anybody.
_FOR_BROWSERS = (
    "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n"
)


class HeadError(Exception):
    """The head of a request is not acceptable HTTP; `status` and str() are for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class CollectedReply:
    """Stands where gunicorn's Response expects a socket, and keeps the bytes it would send."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def sendall(self, piece: bytes) -> None:
        self.pieces.append(piece)


def parse_head(head: bytes, peer: Any, cfg: Any) -> tuple[Any, BodyFraming]:
    """The parsed request, and the framing its headers announce for the body.

    Raises HeadError.
    """
    try:
        request = Request(cfg, IterUnreader([head]), peer)
    except Exception as error:
        status = next((code for kind, code in _PARSE_STATUS if isinstance(error, kind)), 400)
        detail = str(error)[:_MAX_DETAIL_CHARACTERS]
        raise HeadError(status, f"the request's head is not acceptable: {detail}") from error
    _be_strict(request)
    reader = request.body.reader
    if isinstance(reader, ChunkedReader):
        return request, ChunkedFraming()
    return request, LengthFraming(reader.length)


def _be_strict(request: Any) -> None:
    """Refuse what gunicorn takes although RFC 9112 does not, because another reader of the same bytes may see
    another request in them. Raises HeadError."""
    if request.version not in ((1, 0), (1, 1)):
        raise HeadError(505, "HTTP version: this server speaks HTTP/1.1 and HTTP/1.0")
    target = _TARGET.fullmatch(request.uri)
    if target is None:
        raise HeadError(400, "request line: the target is neither a path nor an http URL")
    hosts = [value for name, value in request.headers if name == "HOST"]
    if not hosts and request.version == (1, 1):
        raise HeadError(400, "Host: missing; HTTP/1.1 takes exactly one")
    if not all(_HOST.fullmatch(host) for host in (*hosts, target[1] or "")):
        raise HeadError(400, "Host: neither a name nor an address, with or without a port")
    if target[1] is not None:
        # It stands above the header (3.2.2).
        others = [header for header in request.headers if header[0] != "HOST"]
        request.headers = [*others, ("HOST", target[1])]
    if _listed(request, "TRANSFER-ENCODING") not in ([], ["chunked"]):
        raise HeadError(501, "Transfer-Encoding: chunked is the only coding that is understood")
    if "close" in _listed(request, "CONNECTION"):
        request.force_close()


def _listed(request: Any, header: str) -> list[str]:
    """The members of a header that is a list, in lower case."""
    values = [value for name, value in request.headers if name == header]
    return [member.strip(" \t").lower() for value in values for member in value.split(",")]


def take_expectation(request: Any) -> bool:
    """Whether the client waits for "100 Continue" before it sends the body; gunicorn then sends no other."""
    expected = bool(request._expected_100_continue)
    request._expected_100_continue = False
    return expected


def answer(
    app: WSGIApplication,
    request: Any,
    body: ReceivedBody | MissingBody,
    addresses: tuple[Any, Any],
    cfg: Any,
    last: Callable[[], bool],
) -> tuple[list[bytes], bool, WSGIEnvironment]:
    """The application's reply as bytes to send, whether the connection may be used again, and the environ.

    The environ is only for the caller to hold until the reply is sent: what the application has left in it
    may take longer to free than the reply to send.

    `addresses` are those of the client and of the listener; `last`, asked when the application has
    answered, says whether this is the connection's last reply. Raises what the application raises.
    """
    reply = CollectedReply()
    request.body = body
    response, environ = wsgi.create(request, reply, *addresses, cfg)
    environ["wsgi.multithread"] = True
    result = app(environ, response.start_response)
    if last():
        response.force_close()
    try:
        for piece in result:
            response.write(piece)
        response.close()
    finally:
        if hasattr(result, "close"):
            result.close()
    return reply.pieces, not response.should_close(), environ


def error_reply(status: int, message: str) -> bytes:
    """A whole JSON reply for an error found before the application; the connection closes after it."""
    body = json.dumps({"error": message}).encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{_FOR_BROWSERS}\r\n"
    )
    return head.encode() + body
