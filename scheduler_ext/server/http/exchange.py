"""The head of a request and the bytes of a reply, with gunicorn's parser and response writer. From gunicorn
this uses what each of its worker classes uses: `gunicorn.http.message.Request` and
`gunicorn.http.wsgi.create`, which have no documented stability."""

from __future__ import annotations

import json
import re
from asyncio import IncompleteReadError, LimitOverrunError, StreamReader
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from gunicorn.http import errors, wsgi
from gunicorn.http.body import ChunkedReader
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

# kube-scheduler sends about 200 bytes of head.
MAX_HEAD_BYTES = 16 * 1024
# All other parse errors are a 400.
_PARSE_STATUS = {
    errors.LimitRequestLine: 414,
    errors.LimitRequestHeaders: 431,
    errors.ExpectationFailed: 417,
    errors.UnsupportedTransferCoding: 501,
}
# RFC 9112, 3.2: a path, a URL whose authority is group 1, or the asterisk, which gunicorn accepts with
# OPTIONS only. The authority alone is for proxies.
_TARGET = re.compile(r"/[^#]*|https?://([^/?#]*)(?:[/?][^#]*)?|\*", re.IGNORECASE)
# RFC 3986, 3.2.2, without a user.
_HOST = re.compile(r"(?:[\w.~%!$&'()*+,;=-]*|\[[\w.:%~-]+\])(?::[0-9]*)?", re.ASCII)
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]{1,15})\r\n", re.IGNORECASE)
# Browsers reach the inspection listener, and such an error quotes untrusted text.
_FOR_BROWSERS = (
    "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n"
)


class HeadError(Exception):
    """A request that the application does not see; `status` and str() are for the client. `sending`: the
    client may still be sending, and read its reply only afterwards."""

    def __init__(self, status: int, message: str, sending: bool = True) -> None:
        super().__init__(message)
        self.status = status
        self.sending = sending


async def read_head(reader: StreamReader) -> bytes:
    """The head of a request up to its empty line; b"" if the client ends its side first. Raises HeadError."""
    first = await reader.read(1)
    if not first:
        return b""
    # Only bytes that HTTP can start with: a TLS hello, for example, would otherwise wait for its deadline.
    if not first.isalpha() and first != b"\r":
        raise HeadError(400, "this is not HTTP: expected a request such as POST /filter HTTP/1.1")
    head = bytearray(first)
    try:
        # An empty line may precede the request.
        while not head.endswith(b"\r\n\r\n"):
            head += await reader.readuntil(b"\n")
            if not head.endswith(b"\r\n"):
                raise HeadError(400, "a line of the request's head ends with a bare LF")
            if len(head) > MAX_HEAD_BYTES:
                raise LimitOverrunError("", 0)
    except LimitOverrunError:
        raise HeadError(431, f"the request's head is larger than {MAX_HEAD_BYTES} bytes") from None
    except IncompleteReadError:
        raise HeadError(400, "the request's head ended before its empty line", sending=False) from None
    return bytes(head)


def parse_head(head: bytes, peer: Any, cfg: Any) -> tuple[Any, int | None, bool]:
    """The parsed request, its body's length (None: chunked), and whether the client expects "100 Continue".
    Raises HeadError."""
    try:
        request = Request(cfg, IterUnreader([head]), peer)
    except Exception as error:
        status = next((_PARSE_STATUS[kind] for kind in type(error).mro() if kind in _PARSE_STATUS), 400)
        raise HeadError(status, f"the request's head is not acceptable: {str(error)[:200]}") from error
    _be_strict(request)
    # gunicorn would send it, after the body.
    expects_continue, request._expected_100_continue = request._expected_100_continue, False
    reader = request.body.reader
    return request, None if isinstance(reader, ChunkedReader) else reader.length, expects_continue


def whole_request(data: bytes, peer: Any, cfg: Any) -> tuple[Any, bytes] | None:
    """The parsed request and its body, if these bytes are exactly one request; None for all others, which
    `read_head` and `parse_head` read or refuse."""
    end = data.find(b"\r\n\r\n") + 4
    head, body = data[:end], data[end:]
    if not 4 <= end <= MAX_HEAD_BYTES or not head[:1].isalpha():
        return None
    # The parser takes longer than most decisions, and a third of kube-scheduler's requests come in parts.
    stated = _LENGTH.search(head)
    if stated is not None and int(stated[1]) != len(body):
        return None
    try:
        request, length, expects_continue = parse_head(head, peer, cfg)
    except HeadError:
        return None
    return (request, body) if length == len(body) and not expects_continue else None


def _be_strict(request: Any) -> None:
    """Refuse what gunicorn accepts although RFC 9112 does not: another reader of the same bytes may see
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
        # It overrides the header (3.2.2).
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


class CollectedReply:
    """Collects the bytes that gunicorn's Response sends, in the place of a socket."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.sendall = self.pieces.append


def answer(
    app: WSGIApplication,
    request: Any,
    more: WSGIEnvironment,
    addresses: tuple[Any, Any],
    cfg: Any,
    is_last: Callable[[], bool],
) -> tuple[list[bytes], bool, WSGIEnvironment]:
    """The application's reply as bytes to send, whether the connection may be used again, and the environ.
    `more` is added to the environ. `addresses` are those of the client and of the listener. `is_last`, called
    after the application, says whether this is the connection's last reply. Raises what the application
    raises."""
    reply = CollectedReply()
    response, environ = wsgi.create(request, reply, *addresses, cfg)
    environ |= more
    result = app(environ, response.start_response)
    if is_last():
        response.force_close()
    try:
        for piece in result:
            response.write(piece)
        response.close()
    finally:
        if hasattr(result, "close"):
            result.close()
    return reply.pieces, not response.should_close(), environ


def error_reply(status: int, message: str) -> memoryview:
    """A whole JSON reply for an error found before the application; the connection closes after it."""
    body = json.dumps({"error": message}).encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{_FOR_BROWSERS}\r\n"
    )
    return memoryview(head.encode() + body)
