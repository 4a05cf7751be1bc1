"""Clients that are slow at the TLS listener hold up nobody, and are cut off at the deadline."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

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


def test_a_handshake_in_small_pieces_that_is_read_slowly_is_finished(
    authority: Authority, tmp_path: Path
) -> None:
    files = authority.write_server(tmp_path / "long")
    # More than the kernel takes for a client with so small a window and such short segments.
    files.cert_file.write_bytes(files.cert_file.read_bytes() + authority.ca_pem * 110)
    arriving, departing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = authority.client().wrap_bio(arriving, departing, server_hostname=HOST)
    with running(api, certificates=ServerCertificates(files)) as server, socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 88)
        sock.settimeout(60)
        sock.connect(server.address)
        while not shaken(tls):
            send(sock, departing.read())
            arriving.write(some(sock))
        tls.write(request("/there"))
        send(sock, departing.read())
        reply = b""
        while not reply:
            arriving.write(some(sock))
            with contextlib.suppress(ssl.SSLWantReadError):
                reply = tls.read(1000)
        assert reply.startswith(b"HTTP/1.1 200 OK")


def send(sock: socket.socket, flight: bytes) -> None:
    for start in range(0, len(flight), 200):
        sock.sendall(flight[start : start + 200])


def some(sock: socket.socket) -> bytes:
    received = sock.recv(1000)
    assert received, "closed"
    return received


def shaken(tls: ssl.SSLObject) -> bool:
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


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
