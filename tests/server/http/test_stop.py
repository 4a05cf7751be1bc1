"""A stop: idle connections get a moment for a request on its way, and others are answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler_ext.server.http.tls import ServerCertificates
from scheduler_ext.server.server_options import TlsFiles
from tests.server.http.authority import Authority
from tests.server.http.in_process import Running, running
from tests.server.http.transport_app import GO_ON, api
from tests.server.process.server_process import call, connect, eventually, read_reply, request


@pytest.fixture
def server() -> Iterator[Running]:
    GO_ON.clear()
    with running(api) as found:
        yield found


def test_requests_in_flight_and_late_ones_of_idle_connections_are_answered(server: Running) -> None:
    with connect(server.address) as busy, connect(server.address) as idle:
        call(idle, request("/first"))
        busy.sendall(request("/wait", method="GET"))
        server.stop(60.0, 60.0)
        eventually(lambda: server.server.stopping)
        late = call(idle, request("/late"))
        assert (late.status, late.headers["connection"]) == (200, "close")
        GO_ON.set()
        last = read_reply(busy)
        assert (last.status, last.headers["connection"]) == (200, "close")


def test_idle_connections_do_not_delay_a_stop_for_longer(server: Running) -> None:
    with connect(server.address) as used, connect(server.address) as unused:
        call(used, request("/first"))
        server.stop(60.0, 0.1)
        assert (used.recv(1), unused.recv(1)) == (b"", b"")


def test_the_grace_period_bounds_a_request_that_does_not_end(server: Running) -> None:
    with connect(server.address) as busy:
        busy.sendall(request("/wait", method="GET"))
        server.stop(0.1, 0.0)
        assert busy.recv(1) == b""
        GO_ON.set()


def test_an_unfinished_handshake_does_not_delay_the_stop(authority: Authority, files: TlsFiles) -> None:
    with (
        running(api, certificates=ServerCertificates(files)) as server,
        connect(server.address) as stranger,
        connect(server.address, tls=authority.client()) as used,
    ):
        stranger.sendall(b"\x16\x03\x01")
        call(used, request("/first"))
        server.stop(60.0, 0.1)
        assert stranger.recv(1) == b""
