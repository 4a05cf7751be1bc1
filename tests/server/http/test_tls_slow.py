"""Clients that are slow at the TLS listener hold up nobody, and are cut off at the deadline."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator

import pytest

from scheduler_ext.server.http.tls import ServerCertificates
from scheduler_ext.server.server_options import TlsFiles
from tests.server.http.authority import HOST, Authority
from tests.server.http.in_process import HASTY, LIMITS, Running, running
from tests.server.http.slow_clients import CLIENTS, SlowClients
from tests.server.http.transport_app import LARGE_BYTES, api
from tests.server.process.server_process import call, connect, eventually, read_reply, request

LENGTH = request("/length", b"x" * 100_000)


@pytest.fixture
def patient(files: TlsFiles) -> Iterator[Running]:
    with running(api, certificates=ServerCertificates(files)) as found:
        yield found


@pytest.fixture(scope="module")
def kinds(authority: Authority) -> dict[str, tuple[bytes, bytes]]:
    arriving, departing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        authority.client().wrap_bio(arriving, departing, server_hostname=HOST).do_handshake()
    hello = departing.read()
    return {
        "says nothing": (b"", b""),
        "stalls in its hello": (hello[:100], b""),
        "trickles its hello": (hello[:5], hello[5:]),
        "stalls after its hello": (hello, b""),
    }


def test_half_done_handshakes_delay_no_client(
    patient: Running, authority: Authority, kinds: dict[str, tuple[bytes, bytes]]
) -> None:
    with (
        connect(patient.address, tls=authority.client()) as kept,
        SlowClients(patient.address, kinds),
    ):
        for _ in range(3):
            assert call(kept, LENGTH).json()["length"] == 100_000
            with connect(patient.address, tls=authority.client()) as fresh:
                assert call(fresh, LENGTH).status == 200
    assert patient.cuts.keys() <= {"tls"}


def test_half_done_handshakes_end_at_the_deadline(
    files: TlsFiles, kinds: dict[str, tuple[bytes, bytes]]
) -> None:
    with (
        running(api, HASTY, certificates=ServerCertificates(files)) as hasty,
        SlowClients(hasty.address, kinds) as clients,
    ):
        eventually(lambda: hasty.cuts == {"tls": len(kinds) * CLIENTS})
        for sockets in clients.sockets.values():
            for sock in sockets:
                # What the server said up to then, a farewell at most, and the end.
                assert len(drained(sock)) < 5000


def drained(sock: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(OSError):
        while piece := sock.recv(65536):
            received += piece
    return received


def test_slow_requests_are_cut_off_as_without_tls_and_silent_clients_stay(
    patient: Running, authority: Authority
) -> None:
    client = authority.client()
    with contextlib.ExitStack() as stack:
        silent, in_head, in_body, in_reply = (
            stack.enter_context(connect(patient.address, tls=client)) for _ in range(4)
        )
        patient.hasten()
        in_head.sendall(LENGTH[:20])
        in_body.sendall(LENGTH[:-1])
        in_reply.sendall(request("/large", method="GET"))
        assert (read_reply(in_head).status, read_reply(in_body).status) == (408, 408)
        eventually(lambda: patient.cuts == {"head": 1, "body": 1, "reply": 1})
        # It is cut off in the middle; Python takes the reset for an end.
        assert 0 < len(drained(in_reply)) < LARGE_BYTES
        assert call(silent, request("/later")).status == 200


def test_strangers_do_not_push_out_who_has_shaken_hands(files: TlsFiles, authority: Authority) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(api, LIMITS, certificates=ServerCertificates(files)))
        unused = stack.enter_context(connect(server.address, tls=authority.client()))
        for _ in range(2 * LIMITS.max_connections):
            stack.enter_context(connect(server.address))
        eventually(lambda: server.cuts == {"pressure": LIMITS.max_connections + 1})
        assert call(unused, request("/first")).status == 200
