"""Replies to good and bad HTTP on connections that are kept."""

from __future__ import annotations

import itertools
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from scheduler_ext.server.http import connection
from scheduler_ext.server.http.tls import ServerCertificates
from scheduler_ext.server.server_options import TlsFiles
from tests.server.http.authority import Authority
from tests.server.http.in_process import LIMITS, running
from tests.server.http.transport_app import LARGE_BYTES, api
from tests.server.process.server_process import call, connect, read_reply, read_to_end, request

Connect = Callable[[], socket.socket]
MAX_BODY_BYTES = LIMITS.max_body_bytes


@pytest.fixture(scope="module")
def plain() -> Iterator[Connect]:
    """What connects a client to the server."""
    with running(api) as found:
        yield partial(connect, found.address)


@pytest.fixture(scope="module")
def over_tls(authority: Authority, files: TlsFiles) -> Iterator[Connect]:
    with running(api, certificates=ServerCertificates(files)) as found:
        yield partial(connect, found.address, tls=authority.client())


@pytest.fixture(params=["plain", "over_tls"])
def server(request: pytest.FixtureRequest) -> Connect:
    found: Connect = request.getfixturevalue(request.param)
    return found


def test_many_requests_use_one_connection(server: Connect) -> None:
    with server() as sock:
        for length in (0, 1, 65_536, 250_000, 1_000_000, 0):
            reply = call(sock, request("/length", b"x" * length))
            assert (reply.status, reply.headers["connection"]) == (200, "keep-alive")
            assert reply.json()["length"] == length
            assert reply.json()["age_s"] >= 0


def test_a_reply_does_not_wait_for_the_memory_of_its_request_to_be_freed(server: Connect) -> None:
    with server() as sock:
        assert call(sock, request("/leftover", method="GET")).status == 200
        with server() as other:
            assert call(other, request("/let-go")).status == 200
        assert call(sock, request("/length", b"")).status == 200


def test_a_large_reply_arrives_whole(server: Connect) -> None:
    with server() as sock:
        assert call(sock, request("/large")).body == b"x" * LARGE_BYTES


def test_a_reply_of_unknown_length_is_chunked(server: Connect) -> None:
    with server() as sock:
        sock.sendall(request("/stream", b"", "Connection: close", method="GET"))
        assert read_to_end(sock).endswith(b"4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n0\r\n\r\n")


@pytest.mark.parametrize("seed", range(3))
def test_requests_are_answered_in_order_wherever_the_network_cuts_them(server: Connect, seed: int) -> None:
    draw = random.Random(seed)
    lengths = [draw.choice((0, 1, 500, 70_000)) for _ in range(40)]
    requests = [request("/length", b"x" * length) for length in lengths[:-1]]
    requests.append(request("/length", b"x" * lengths[-1], "Connection: close"))
    raw, ends = b"".join(requests), list(itertools.accumulate(map(len, requests)))
    edges = sorted({0, *draw.sample(ends, 20), *(draw.randrange(len(raw)) for _ in range(15)), len(raw)})
    with server() as sock:
        for start, end in itertools.pairwise(edges):
            sock.sendall(raw[start:end])
            time.sleep(0)
        replies = read_to_end(sock)
    assert [int(part.split(b",")[0]) for part in replies.split(b'"length": ')[1:]] == lengths


def test_a_request_directly_after_a_reply_is_answered(server: Connect) -> None:
    """The next request may arrive before the event loop knows that the reply was sent."""
    socks = [server() for _ in range(4)]
    for _ in range(100):
        for sock in socks:
            sock.sendall(request("/length", b"x"))
        for sock in socks:
            assert read_reply(sock).json()["length"] == 1
    for sock in socks:
        sock.close()


def chunked(*chunks: bytes, last: bytes = b"0\r\n\r\n") -> bytes:
    head = b"POST /length HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + last


def test_a_client_that_expects_100_continue_gets_it_before_its_body(server: Connect) -> None:
    raw = request("/length", b"x" * 10, "Expect: 100-continue")
    with server() as sock:
        sock.sendall(raw[:-10])
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(raw[-10:])
        assert read_reply(sock).json()["length"] == 10


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(request("/length", b"x" * 100)[:-1], id="in a body of known length"),
        pytest.param(chunked(b"xy", last=b""), id="in a chunked body"),
        pytest.param(b"POST /length HTT", id="in the head"),
    ],
)
def test_a_client_that_ends_early_gets_a_400(plain: Connect, raw: bytes) -> None:
    with plain() as sock:
        sock.sendall(raw)
        sock.shutdown(socket.SHUT_WR)
        reply = read_reply(sock)
        assert read_to_end(sock) == b""
    assert (reply.status, reply.headers["connection"]) == (400, "close")
    assert "ended before" in reply.json()["error"]


@pytest.mark.parametrize("is_chunked", [False, True], ids=["announced length", "chunked"])
@pytest.mark.parametrize("reads_first", [False, True], ids=["sends everything", "reads first"])
def test_413_reaches_a_client_that_is_still_sending(
    plain: Connect, is_chunked: bool, reads_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long it pauses between its pieces.
    monkeypatch.setattr(connection, "LINGER_S", 0.0)
    body = b"x" * (MAX_BODY_BYTES * 3)
    raw = chunked(*[body[:65536]] * (len(body) // 65536)) if is_chunked else request("/length", body)
    first = len(raw) if not reads_first else MAX_BODY_BYTES * 2 if is_chunked else 200
    with plain() as sock:
        sock.sendall(raw[:first])
        reply = read_reply(sock)
        sock.sendall(raw[first:])
        assert (reply.status, reply.headers["connection"]) == (413, "close")
        assert str(MAX_BODY_BYTES) in reply.json()["error"]
        assert sock.recv(1) == b""


def test_413_reaches_a_client_over_tls_that_is_still_sending(over_tls: Connect) -> None:
    head = request("/length").replace(b"Content-Length: 0", b"Content-Length: 100000000")
    with over_tls() as sock:
        reply = call(sock, head + b"x" * (1 << 20))
        sock.sendall(b"x" * (1 << 20))
        assert (reply.status, reply.headers["connection"]) == (413, "close")
        assert sock.recv(1) == b""


def test_the_server_survives_clients_that_reset(server: Connect, caplog: pytest.LogCaptureFixture) -> None:
    for raw in (request("/length", b"x" * 100)[:-1], request("/sleep/50"), request("/large"), b"G", b""):
        sock = server()
        sock.sendall(raw)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    with server() as sock:
        assert call(sock, request("/after")).status == 200
    assert [record for record in caplog.records if record.exc_info] == []
