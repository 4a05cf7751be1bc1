"""Uncommon TLS: key updates, halves of messages, tiny and bad records."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Iterator
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

Spoil = Callable[[bytes], bytes]
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


@pytest.mark.parametrize("message", [KEY_UPDATE, KEY_UPDATE_REQUESTED])
def test_keys_may_be_updated_anywhere(client: HandmadeClient, message: bytes) -> None:
    for _ in range(3):
        for start in range(0, len(LENGTH), 7000):
            client.sock.sendall(client.record(LENGTH[start : start + 7000]))
            client.sock.sendall(client.record(message, HANDSHAKE))
            client.update_key()
        reply = client.read_reply()
        assert (reply.status, reply.json()["length"]) == (200, len(BODY))


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


def test_half_a_key_update_before_the_reply_ends_the_connection(client: HandmadeClient) -> None:
    half = client.record(KEY_UPDATE[:4], HANDSHAKE)
    client.sock.sendall(client.record(request("/large")) + half)
    assert client.recv(1) == b""


def test_both_halves_of_a_key_update_are_joined(client: HandmadeClient) -> None:
    client.sock.sendall(client.record(LENGTH[:5000]))
    client.sock.sendall(client.record(KEY_UPDATE[:2], HANDSHAKE))
    client.sock.sendall(client.record(KEY_UPDATE[2:], HANDSHAKE))
    client.update_key()
    for start in range(5000, len(LENGTH), 16000):
        client.sock.sendall(client.record(LENGTH[start : start + 16000]))
    assert client.read_reply().json()["length"] == len(BODY)


def test_a_body_in_records_of_one_byte_arrives_whole(client: HandmadeClient) -> None:
    raw = request("/length", b"x" * 5000)
    client.sock.sendall(b"".join(client.record(raw[place : place + 1]) for place in range(len(raw))))
    assert client.read_reply().json()["length"] == 5000


def test_requests_in_one_record_are_answered_in_order(client: HandmadeClient) -> None:
    client.sock.sendall(client.record(b"".join(request(f"/{number}") for number in range(5))))
    received = b""
    while received.count(b'"path"') < 5:
        received += client.recv(65536)
    assert re.findall(rb'"path": "/(\d)"', received) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(
            lambda record: record[:-1] + bytes([record[-1] ^ 1]), id="with a wrong authentication tag"
        ),
        pytest.param(lambda record: b"\x17\x03\x03\xff\xff" + b"x" * 70000, id="that is too long"),
        pytest.param(lambda record: b"\x63" + record[1:], id="of an unknown type"),
        pytest.param(lambda record: b"GET / HTTP/1.1\r\n\r\n", id="that is plain HTTP"),
    ],
)
def test_a_record_ends_the_connection(client: HandmadeClient, spoil: Spoil) -> None:
    client.sock.sendall(client.record(LENGTH[:8000]) + spoil(client.record(LENGTH[8000:16000])))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        client.read_reply()


def test_a_flood_of_empty_records_ends_the_connection(client: HandmadeClient) -> None:
    def flood() -> None:
        client.sock.sendall(b"".join(client.record(b"") for _ in range(10_000)))
        client.read_reply()

    with pytest.raises((ssl.SSLError, ConnectionError)):
        flood()


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
