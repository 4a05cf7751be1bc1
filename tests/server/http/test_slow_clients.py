"""Clients that are slow to send or to read hold no thread, and are cut off at the deadline."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from tests.server.http.in_process import HASTY, LIMITS, PATIENT, running
from tests.server.http.slow_clients import CLIENTS, SlowClients
from tests.server.http.transport_app import api
from tests.server.process.server_process import (
    call,
    connect,
    eventually,
    get,
    read_reply,
    read_to_end,
    request,
)

LENGTH_100 = request("/length", b"x" * 100)
CHUNKED = b"POST /length HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"

# What each kind of client sends, and what it trickles afterwards, byte by byte.
KINDS: dict[str, tuple[bytes, bytes]] = {
    "stalls in the head": (LENGTH_100[:20], b""),
    "stalls in the body": (LENGTH_100[:-50], b""),
    "stalls in a chunk": (CHUNKED + b"64\r\nxxx", b""),
    "trickles the head": (LENGTH_100[:5], LENGTH_100[5:60]),
    "trickles the body": (LENGTH_100[:-90], LENGTH_100[-90:-10]),
    "does not read": (request("/large"), b""),
    "reads byte by byte": (request("/large"), b""),
}
CUT = {
    "head": ("stalls in the head", "trickles the head"),
    "body": ("stalls in the body", "stalls in a chunk", "trickles the body"),
    "reply": ("does not read", "reads byte by byte"),
}


def test_slow_clients_hold_no_thread() -> None:
    """There are fewer threads than clients of each kind."""
    assert PATIENT.threads < CLIENTS
    with running(api) as server:
        with SlowClients(server.address, KINDS), connect(server.address) as kept:
            for _ in range(3):
                assert call(kept, request("/length", b"x" * 250_000)).status == 200
                assert get(server.address, "/fresh").status == 200
                assert get(server.address, "/livez").body == b"ok"
        assert server.cuts == {}


def test_slow_clients_are_cut_off_at_the_deadline() -> None:
    expected = {reason: CLIENTS * len(kinds) for reason, kinds in CUT.items()}
    with (
        running(api, HASTY) as server,
        SlowClients(server.address, KINDS) as clients,
    ):
        eventually(lambda: server.cuts == expected)
        clients.stop()
        for kind in (*CUT["head"], *CUT["body"]):
            for sock in clients.sockets[kind]:
                reply = read_reply(sock)
                assert (reply.status, reply.headers["connection"]) == (408, "close"), kind
                assert "did not arrive whole within 0.3 s" in reply.json()["error"]
        for kind in CUT["reply"]:
            for sock in clients.sockets[kind]:
                with pytest.raises(ConnectionResetError):
                    read_to_end(sock)


def test_idle_connections_stay_and_serve_later() -> None:
    with (
        running(api, HASTY) as server,
        connect(server.address) as unused,
        connect(server.address) as used,
    ):
        call(used, request("/first"))
        with connect(server.address) as slow:
            slow.sendall(LENGTH_100[:20])
            assert read_reply(slow).status == 408
        for sock in (used, unused):
            assert call(sock, request("/later")).status == 200


def test_too_many_connections_replace_idle_ones_that_sent_no_request() -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(api, LIMITS))
        used = stack.enter_context(connect(server.address))
        call(used, request("/first"))
        for _ in range(2 * LIMITS.max_connections):
            stack.enter_context(connect(server.address))
        eventually(lambda: server.cuts == {"pressure": LIMITS.max_connections + 1})
        assert call(used, request("/again")).status == 200


def test_unfinished_bodies_together_are_bounded() -> None:
    """Five bodies of nearly the limit exceed the bound, which is four times the limit."""
    limits = replace(PATIENT, max_held_bytes=4 * PATIENT.max_body_bytes)
    body = b"x" * (PATIENT.max_body_bytes - 10)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(api, limits))
        socks = [stack.enter_context(connect(server.address)) for _ in range(5)]
        for sock in socks:
            sock.sendall(request("/length", body)[:-1])
        reply = read_reply(socks[0])
        assert reply.status == 503
        assert "unfinished" in reply.json()["error"]
        socks[4].sendall(b"x")
        assert read_reply(socks[4]).json()["length"] == len(body)
