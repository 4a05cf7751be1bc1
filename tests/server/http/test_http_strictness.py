"""Requests that RFC 9112 makes a server refuse, because two readers could read them differently."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.http.in_process import Address, running
from tests.server.http.transport_app import api
from tests.server.process.server_process import Reply, call, connect, read_reply, read_to_end, request

CHUNKED = b"POST /length HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Address]:
    with running(api) as found:
        yield found.address


def head(*lines: str, start: str = "POST /length HTTP/1.1", host: str | None = "Host: a") -> bytes:
    shown = [start, *([] if host is None else [host]), *lines]
    return "".join(f"{line}\r\n" for line in shown).encode("latin-1") + b"\r\n"


def target(form: str, method: str = "GET", host: str = "a") -> bytes:
    return head(start=f"{method} {form} HTTP/1.1", host=f"Host: {host}")


REFUSED = [
    # Section 2: messages.
    pytest.param(b"GET / HTTP/1.1\nHost: a\n\n", 400, id="lines of the head that end with a bare LF"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400, id="a bare CR in a header"),
    pytest.param(b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400, id="white space before the first header"),
    pytest.param(head(start="GET / HTTP/1.2"), 505, id="HTTP/1.2, which is not specified"),
    pytest.param(head(start="GET / http/1.1"), 400, id="the version in lower case"),
    pytest.param(b"GET /\r\n\r\n", 400, id="HTTP/0.9, which has no version"),
    # Section 3: the request line.
    pytest.param(head(start="GET  / HTTP/1.1"), 400, id="two spaces in the request line"),
    pytest.param(head(start="G\x00T / HTTP/1.1"), 400, id="a method that is no token"),
    pytest.param(target("/\x00"), 400, id="a NUL in the target"),
    pytest.param(target("/\xe4"), 400, id="a byte in the target that is not ASCII"),
    pytest.param(target("/a#b"), 400, id="a fragment in the target"),
    pytest.param(target("livez"), 400, id="a target without its slash"),
    pytest.param(target("a:80", "CONNECT"), 400, id="a tunnel, which is for proxies"),
    pytest.param(target("a:b://c/"), 400, id="a target that only contains a URL"),
    pytest.param(target("http://b@a/"), 400, id="a URL with a user as the target"),
    pytest.param(target("*"), 400, id="an asterisk with another method than OPTIONS"),
    # Section 3.2: Host.
    pytest.param(head(host=None), 400, id="HTTP/1.1 without a Host"),
    pytest.param(head("Host: a"), 400, id="the same Host twice"),
    pytest.param(head(host="Host: a, b"), 400, id="two Hosts in one header"),
    pytest.param(head(host="Host: a b"), 400, id="a Host with a space"),
    pytest.param(head(host="Host: b@a"), 400, id="a Host with a user"),
    pytest.param(head(host="Host: a:b"), 400, id="a Host with a port that is not a number"),
    # Section 5: headers.
    pytest.param(head("X : b"), 400, id="white space between a header's name and its colon"),
    pytest.param(head("X"), 400, id="a header without a colon"),
    pytest.param(head("X: b", " c"), 400, id="a header folded over two lines"),
    pytest.param(head("X: \x1b[2J"), 400, id="an escape sequence in a header"),
    pytest.param(head("X\xe4: b"), 400, id="a header's name that is not ASCII"),
    # Section 6: how long the body is.
    pytest.param(head("Content-Length: 1", "Content-Length: 1"), 400, id="the same length twice"),
    pytest.param(head("Content-Length: +1"), 400, id="a length with a sign"),
    pytest.param(head("Content-Length: \xb2"), 400, id="a length of another digit"),
    pytest.param(head("Content-Length: 1", "Transfer-Encoding: chunked"), 400, id="a length and chunks"),
    pytest.param(head("Transfer-Encoding: gzip, chunked"), 501, id="compressed chunks"),
    pytest.param(head("Transfer-Encoding: gzip"), 400, id="compression without a known end"),
    pytest.param(head("Transfer-Encoding: chunked, chunked"), 400, id="chunks of chunks"),
    pytest.param(head("Transfer-Encoding: \x0bchunked"), 400, id="chunks behind a control character"),
    pytest.param(head("Transfer-Encoding: xchunked"), 501, id="a coding whose name ends in chunked"),
    pytest.param(
        head("Transfer-Encoding: chunked", start="POST /length HTTP/1.0"), 400, id="chunks of HTTP/1.0"
    ),
    # Section 7: chunks.
    pytest.param(CHUNKED + b"1\nx\r\n0\r\n\r\n", 400, id="a bare LF behind a chunk's size"),
    pytest.param(CHUNKED + b"1;a\nb\r\nx\r\n0\r\n\r\n", 400, id="a bare LF in a chunk's extension"),
    pytest.param(CHUNKED + b"1;a\rb\r\nx\r\n0\r\n\r\n", 400, id="a bare CR in a chunk's extension"),
    pytest.param(CHUNKED + b"1;\x00\r\nx\r\n0\r\n\r\n", 400, id="a NUL in a chunk's extension"),
    pytest.param(CHUNKED + b"0x1\r\nx\r\n0\r\n\r\n", 400, id="a chunk's size with a prefix"),
    pytest.param(CHUNKED + b"\r\n", 400, id="no chunk size"),
    pytest.param(CHUNKED + b"f" * 16 + b"\r\n", 400, id="a chunk's size beyond any memory"),
    pytest.param(CHUNKED + b"-1\r\nx\r\n0\r\n\r\n", 400, id="a negative chunk size"),
    pytest.param(CHUNKED + b"1;" + b"x" * 9000, 400, id="a chunk's extension without end"),
    pytest.param(CHUNKED + b"1\r\nxy\r\n0\r\n\r\n", 400, id="a chunk longer than its size"),
    pytest.param(CHUNKED + b"1\r\nx\n0\r\n\r\n", 400, id="a bare LF behind a chunk"),
    pytest.param(CHUNKED + b"0\r\na: b\n\r\n", 400, id="a bare LF in the trailers"),
    pytest.param(CHUNKED + b"0\r\na: b\rc: d\r\n\r\n", 400, id="a bare CR between two trailers"),
    pytest.param(CHUNKED + b"0\r\nGET / HTTP/1.1\r\n\r\n", 400, id="a request in the place of trailers"),
    pytest.param(CHUNKED + b"0\r\na : b\r\n\r\n", 400, id="white space before a trailer's colon"),
    pytest.param(CHUNKED + b"0\r\na: b\r\n c\r\n\r\n", 400, id="a folded trailer"),
    pytest.param(CHUNKED + b"0\r\n" + b"a: b\r\n" * 2000 + b"\r\n", 400, id="trailers without end"),
    pytest.param(CHUNKED + b"1\r\nx\r\n" * 2000, 400, id="thousands of one-byte chunks"),
    # Sizes.
    pytest.param(target("/" + "x" * 5000), 414, id="a request line of 5 kB"),
    pytest.param(head(*["A: b"] * 200), 431, id="two hundred headers"),
    pytest.param(b"GET / HTTP/1.1\r\nA: " + b"x" * 100_000, 431, id="a head without end"),
    # Others.
    pytest.param(b"\x16\x03\x01\x02\x00\x01", 400, id="a TLS hello, answered at once"),
    pytest.param(b"GARBAGE\r\n\r\n", 400, id="a request line without path and version"),
    # RFC 9110.
    pytest.param(head("Expect: more"), 417, id="an unknown expectation"),
]


@pytest.mark.parametrize(("raw", "status"), REFUSED)
def test_an_ambiguous_request_is_refused_and_the_next_is_not_read(
    server: Address, raw: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(server) as sock:
        sock.sendall(raw + request("/smuggled", method="GET"))
        reply = read_reply(sock)
        assert (reply.status, reply.headers["connection"]) == (status, "close"), reply.body
        assert list(reply.json()) == ["error"]
        assert read_to_end(sock) == b""
    assert [record for record in caplog.records if record.exc_info] == []
    assert_well(server)


def assert_well(server: Address) -> None:
    with connect(server) as sock:
        assert call(sock, request("/length", b"x")).json()["length"] == 1


ACCEPTED = [
    pytest.param(head(start="GET / HTTP/1.0", host=None), id="HTTP/1.0 needs no Host"),
    pytest.param(b"\r\n" + head(), id="an empty line before the request"),
    pytest.param(head(host="Host:"), id="an empty Host"),
    pytest.param(head(host="Host: a.example:8888"), id="a name and a port"),
    pytest.param(head(host="Host: a_b"), id="a name with an underscore"),
    pytest.param(head(host="Host: [::1]:8888"), id="an address of IPv6 and a port"),
    pytest.param(head(host="HOST:\ta \t"), id="a header in capitals among white space"),
    pytest.param(target("http://a/length"), id="a URL as the target"),
    pytest.param(target("HTTP://a/length?x=y"), id="a URL in capitals with a query"),
    pytest.param(target("https://a"), id="a URL without a path"),
    pytest.param(target("*", "OPTIONS"), id="an asterisk with OPTIONS"),
    pytest.param(target("//a/b"), id="two slashes"),
    pytest.param(target("/?a:b://c"), id="a URL in the query"),
    pytest.param(head("Transfer-Encoding: Chunked") + b"0\r\n\r\n", id="chunks with a capital"),
    pytest.param(CHUNKED + b"1 ;a=b\r\nx\r\n0\r\nT: \xe4\t\r\nU:\r\n\r\n", id="extensions and trailers"),
    pytest.param(head("Script_Name: /x", "Content_Length: 9"), id="names with underscores are ignored"),
]


@pytest.mark.parametrize("raw", ACCEPTED)
def test_a_clear_request_is_accepted_like_the_next_one(server: Address, raw: bytes) -> None:
    with connect(server) as sock:
        assert call(sock, raw).status == 200
        if b"HTTP/1.0" not in raw:
            assert call(sock, request("/length", b"x")).json()["length"] == 1


@pytest.mark.parametrize(
    "headers",
    [
        ("SCRIPT_NAME: /nowhere",),
        ("PATH_INFO: /length",),
        ("REMOTE_USER: root",),
        ("X-Forwarded-Proto: https",),
        ("X-Forwarded-For: 10.0.0.1",),
    ],
)
def test_headers_of_a_proxy_are_ignored_even_from_loopback(server: Address, headers: tuple[str, ...]) -> None:
    seen = echoed(server, request("/echo", b"", *headers, method="GET"))
    assert seen.json() == echoed(server, request("/echo", method="GET")).json()


def echoed(server: Address, raw: bytes) -> Reply:
    with connect(server) as sock:
        return call(sock, raw)


def test_the_host_of_a_url_as_the_target_overrides_the_header(server: Address) -> None:
    raw = target("http://real.example:1/echo", host="other.example")
    assert echoed(server, raw).json()["HTTP_HOST"] == "real.example:1"


@pytest.mark.parametrize(
    "lines",
    [("Connection: close",), ("Connection: TE, Close",), ("Connection: keep-alive", "Connection: close")],
)
def test_the_connection_of_a_client_that_announces_its_close_is_closed(
    server: Address, lines: tuple[str, ...]
) -> None:
    with connect(server) as sock:
        assert call(sock, head(*lines)).headers["connection"] == "close"
        assert read_to_end(sock) == b""
