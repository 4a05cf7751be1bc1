"""Clients that do not read: what is held is bounded, connections are limited, and probes are answered."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from scheduler_ext.server.http.listeners import listen
from tests.server.http.in_process import PATIENT, Address, Running, running
from tests.server.http.slow_clients import small_window
from tests.server.http.transport_app import GO_ON, api
from tests.server.process.server_process import call, connect, eventually, get, read_reply, request

MIB = 1 << 20
CONNECTIONS, HELD_MIB = 40, 8
LIMITS = replace(PATIENT, max_connections=CONNECTIONS, max_body_bytes=2 * MIB, max_held_bytes=HELD_MIB * MIB)
WAIT = request("/wait", method="GET")


@pytest.fixture
def server() -> Iterator[Running]:
    GO_ON.clear()
    # The kernel takes little off the server's hands.
    listener = listen("the API", ("127.0.0.1", 0), 32 * 1024)
    with running(api, LIMITS, listener) as found:
        try:
            yield found
        finally:
            GO_ON.set()


class NonReaders(contextlib.ExitStack):
    """Clients that send requests and do not read replies."""

    def ask(self, address: Address, raw: bytes, count: int) -> list[socket.socket]:
        socks = [self.enter_context(small_window(address)) for _ in range(count)]
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.sendall(raw)
        return socks


def arrives(sock: socket.socket) -> bool:
    """Whether a reply arrives whole; the server resets a connection that it cuts."""
    try:
        return len(read_reply(sock).body) == MIB
    except ConnectionResetError:
        return False


def test_unread_replies_are_held_up_to_a_bound(server: Running) -> None:
    with NonReaders() as clients:
        socks = clients.ask(server.address, request("/large/1", method="GET"), 20)
        # As many as the bound allows are held, and one more may be on its way.
        eventually(lambda: server.cuts.get("pressure", 0) >= 20 - HELD_MIB - 1)
        # The order of the replies, which depends on the machine, decides which of them are cut.
        whole = sum(map(arrives, socks))
        assert 0 < whole <= HELD_MIB + 1
        assert server.cuts == {"pressure": 20 - whole}
    assert get(server.address, "/livez").body == b"ok"


def test_a_reply_that_several_clients_get_counts_once(server: Running) -> None:
    with NonReaders() as clients:
        socks = clients.ask(server.address, request("/shared", method="GET"), HELD_MIB + 4)
        assert all(map(arrives, socks))
    assert server.cuts == {}


def test_a_reply_larger_than_the_bound_arrives_whole(server: Running) -> None:
    with NonReaders() as clients:
        (sock,) = clients.ask(server.address, request(f"/large/{2 * HELD_MIB}", method="GET"), 1)
        # Other requests are answered meanwhile, and no connection is cut.
        for _ in range(3):
            assert get(server.address, "/livez").body == b"ok"
        assert len(read_reply(sock).body) == 2 * HELD_MIB * MIB
    assert server.cuts == {}


def test_bodies_that_wait_for_a_thread_count(server: Running) -> None:
    """Requests occupy the threads, and the others wait with bodies of nearly the limit."""
    with NonReaders() as clients:
        clients.ask(server.address, WAIT, LIMITS.threads)
        clients.ask(server.address, request("/wait", bytes(2 * MIB - 1000)), HELD_MIB)
        eventually(lambda: server.cuts.get("pressure", 0) > 0)
        assert get(server.address, "/livez").body == b"ok"


def test_connections_stay_at_their_limit_and_probes_are_answered(server: Running) -> None:
    """Requests occupy the threads, and those that wait for a thread make room for new connections."""
    with NonReaders() as clients:
        clients.ask(server.address, WAIT, CONNECTIONS + 10)
        eventually(lambda: server.cuts == {"pressure": 10})
        for _ in range(3):
            assert get(server.address, "/livez").body == b"ok"


def test_a_probe_does_not_wait_for_other_replies(server: Running) -> None:
    with NonReaders() as clients, connect(server.address) as probe:
        waiting = clients.ask(server.address, WAIT, 10)
        for path in ("/livez", "/readyz", "/readyz?verbose"):
            assert call(probe, request(path, method="GET")).body == b"ok"
        GO_ON.set()
        assert {read_reply(sock).status for sock in waiting} == {200}
