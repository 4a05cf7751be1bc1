"""Uncommon TLS: key updates, a bad record, and the end of a connection without a farewell."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_ext.server.http import tls
from scheduler_ext.server.http.listeners import listen
from scheduler_ext.server.http.tls import ServerCertificates
from scheduler_ext.server.server_options import TlsFiles
from tests.server.http.authority import Authority
from tests.server.http.handmade_tls import (
    ALERT,
    CLOSE_NOTIFY,
    HANDSHAKE,
    KEY_UPDATE,
    KEY_UPDATE_REQUESTED,
    HandmadeClient,
)
from tests.server.http.in_process import Address, running
from tests.server.http.transport_app import api
from tests.server.process.server_process import call, connect, read_reply, request

BODY = b"x" * 40_000
LENGTH = request("/length", BODY)


@pytest.fixture(scope="module")
def server(files: TlsFiles) -> Iterator[Address]:
    with running(api, certificates=ServerCertificates(files)) as found:
        yield found.address


@pytest.fixture
def client(server: Address, authority: Authority, tmp_path: Path) -> Iterator[HandmadeClient]:
    with connect(server) as sock:
        yield HandmadeClient(sock, authority.client(), tmp_path / "keys")


@pytest.fixture(autouse=True)
def well(server: Address, authority: Authority, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """After each test others are served, and nothing unexpected is logged."""
    yield
    with connect(server, tls=authority.client()) as sock:
        assert call(sock, LENGTH).json()["length"] == len(BODY)
    assert [record for record in caplog.records if record.exc_info] == []


def test_a_key_update_on_an_idle_connection_does_not_start_a_request(
    files: TlsFiles, authority: Authority, tmp_path: Path
) -> None:
    with (
        running(api, certificates=ServerCertificates(files)) as hasty,
        connect(hasty.address) as sock,
        connect(hasty.address, tls=authority.client()) as slow,
    ):
        client = HandmadeClient(sock, authority.client(), tmp_path / "keys")
        hasty.hasten()
        sock.sendall(client.record(KEY_UPDATE, HANDSHAKE))
        client.update_key()
        # A request that begins after it is overdue.
        slow.sendall(LENGTH[:20])
        assert read_reply(slow).status == 408
        sock.sendall(client.record(request("/there")))
        assert client.read_reply().status == 200


def test_a_record_that_was_changed_on_its_way_ends_the_connection(client: HandmadeClient) -> None:
    changed = bytearray(client.record(LENGTH[:8000]))
    changed[-1] ^= 1
    client.sock.sendall(changed)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        client.read_reply()


def test_a_client_that_requests_key_updates_and_does_not_read_is_cut_off(
    files: TlsFiles, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small on both sides, so that the kernel holds few unread bytes.
    monkeypatch.setattr(tls, "_MAX_UNREAD_BYTES", 8 * 1024)
    listener = listen("the API", ("127.0.0.1", 0), 4096)
    with (
        running(api, listener=listener, certificates=ServerCertificates(files)) as server,
        socket.socket() as sock,
    ):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 88)
        sock.settimeout(60)
        sock.connect(server.address)
        client = HandmadeClient(sock, authority.client(), tmp_path / "keys")

        def ask() -> None:
            for _ in range(30_000):
                sock.sendall(client.record(KEY_UPDATE_REQUESTED, HANDSHAKE))
                client.update_key()

        with pytest.raises(ConnectionError):
            ask()


@pytest.mark.parametrize("says_so", [True, False], ids=["in TLS", "in TCP only"])
@pytest.mark.parametrize("sent", [len(LENGTH) - 1, 10], ids=["in the body", "in the head"])
def test_a_client_that_ends_early_is_closed(client: HandmadeClient, says_so: bool, sent: int) -> None:
    client.sock.sendall(b"".join(client.record(LENGTH[start:sent][:9000]) for start in range(0, sent, 9000)))
    if says_so:
        client.sock.sendall(client.record(CLOSE_NOTIFY, ALERT))
    else:
        client.sock.shutdown(socket.SHUT_WR)
    assert client.recv(1) == b""
