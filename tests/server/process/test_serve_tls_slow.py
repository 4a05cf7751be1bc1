"""Clients that are slow or many at the TLS listener hurt themselves only, before and after the handshake."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from scheduler_ext.server.server_options import TlsFiles
from tests.server.http.authority import HOST, Authority
from tests.server.http.slow_clients import CLIENTS, SlowClients
from tests.server.http.transport_app import LARGE_BYTES
from tests.server.process.server_process import (
    ServerProcess,
    call,
    connect,
    eventually,
    get,
    read_reply,
    request,
    timed,
)

pytestmark = pytest.mark.process

TIMEOUT_S = 1.5
LENGTH = request("/length", b"x" * 100_000)


@pytest.fixture(scope="module")
def server(authority: Authority, files: TlsFiles) -> Iterator[ServerProcess]:
    folder = str(files.cert_file.parent)
    tls = authority.client()
    with ServerProcess("--tls-folder", folder, "--timeout-s", str(TIMEOUT_S), tls=tls) as process:
        yield process.ready()


@pytest.fixture(scope="module")
def patient(authority: Authority, files: TlsFiles) -> Iterator[ServerProcess]:
    """One that waits for as long as a busy machine takes."""
    folder = str(files.cert_file.parent)
    with ServerProcess("--tls-folder", folder, "--timeout-s", "60", tls=authority.client()) as process:
        yield process.ready()


@pytest.fixture(scope="module")
def hello(authority: Authority) -> bytes:
    """The first bytes of a client."""
    arriving, departing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        authority.client().wrap_bio(arriving, departing, server_hostname=HOST).do_handshake()
    return departing.read()


def cuts(server: ServerProcess) -> dict[str, int]:
    with server.connect() as sock:
        counts: dict[str, int] = call(sock, request("/cuts", method="GET")).json()
    return counts


def cpu_s(server: ServerProcess) -> float:
    """What the worker has computed; there are 100 ticks to a second on Linux."""
    fields = Path(f"/proc/{server.worker_pid()}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def resident_mib(server: ServerProcess) -> int:
    status = Path(f"/proc/{server.worker_pid()}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) // 1024


def test_hundreds_of_half_done_handshakes_delay_no_client_and_end_at_the_deadline(
    server: ServerProcess, hello: bytes
) -> None:
    kinds = {
        "says nothing": (b"", b""),
        "stalls in its hello": (hello[:100], b""),
        "trickles its hello": (hello[:5], hello[5:]),
        "stalls after its hello": (hello, b""),
    }
    before = cuts(server)
    started = time.monotonic()
    with server.connect() as kept, SlowClients(server.api, kinds) as clients:

        def both_s() -> float:
            reply, kept_s = timed(kept, LENGTH)
            assert reply.json()["length"] == 100_000
            fresh = time.monotonic()
            with server.connect() as sock:
                assert call(sock, LENGTH).status == 200
            return max(kept_s, time.monotonic() - fresh)

        took_s = []
        while cuts(server)["tls"] < before["tls"] + len(kinds) * CLIENTS:
            took_s.append(both_s())
            assert time.monotonic() - started < 60
            time.sleep(0.02)
        # A busy machine delays some of them; what waits for slow clients delays all.
        assert median(took_s) < 1.0
        for sockets in clients.sockets.values():
            for sock in sockets:
                # What the server said up to then, a farewell at most, and the end.
                assert len(drained(sock)) < 5000
    assert cuts(server) == before | {"tls": before["tls"] + len(kinds) * CLIENTS}


def drained(sock: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(OSError):
        while piece := sock.recv(65536):
            received += piece
    return received


def test_a_handshake_that_takes_a_while_is_finished(patient: ServerProcess, authority: Authority) -> None:
    arriving, departing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = authority.client().wrap_bio(arriving, departing, server_hostname=HOST)
    with connect(patient.api) as sock:
        while True:
            done = shaken(tls)
            flight = departing.read()
            for start in range(0, len(flight), 200):
                sock.sendall(flight[start : start + 200])
                time.sleep(0.05)
            if done:
                break
            arriving.write(sock.recv(65536))
        tls.write(request("/there"))
        sock.sendall(departing.read())
        arriving.write(sock.recv(65536))
        assert tls.read(65536).startswith(b"HTTP/1.1 200 OK")


def test_a_client_that_is_slow_to_read_the_handshake_is_waited_for(
    authority: Authority, tmp_path: Path
) -> None:
    files = authority.write_server(tmp_path / "long")
    # More than the kernel takes for a client with so small a window and such short segments.
    files.cert_file.write_bytes(files.cert_file.read_bytes() + authority.ca_pem * 110)
    arriving, departing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = authority.client().wrap_bio(arriving, departing, server_hostname=HOST)
    arguments = ("--tls-folder", str(tmp_path / "long"), "--timeout-s", "60")
    with ServerProcess(*arguments) as server, socket.socket() as sock:
        server.ready()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 88)
        sock.settimeout(60)
        sock.connect(server.api)
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        sock.sendall(departing.read())
        time.sleep(0.3)
        before_s = cpu_s(server)
        time.sleep(0.7)
        assert cpu_s(server) - before_s < 0.3
        while not shaken(tls):
            arriving.write(some(sock))
        tls.write(request("/there"))
        sock.sendall(departing.read())
        reply = b""
        while not reply:
            arriving.write(some(sock))
            with contextlib.suppress(ssl.SSLWantReadError):
                reply = tls.read(1000)
        assert reply.startswith(b"HTTP/1.1 200 OK")


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


def test_a_client_may_stay_silent_after_the_handshake(server: ServerProcess) -> None:
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(server.connect()) for _ in range(CLIENTS)]
        time.sleep(TIMEOUT_S + 0.5)
        # A busy machine delays some of them.
        assert median([timed(sock, request("/later"))[1] for sock in silent]) < 1.0


def test_slow_requests_over_tls_are_cut_off_as_without(server: ServerProcess) -> None:
    before = cuts(server)
    with server.connect() as in_head, server.connect() as in_body, server.connect() as in_reply:
        in_head.sendall(LENGTH[:20])
        in_body.sendall(LENGTH[:-1])
        in_reply.sendall(request("/large", method="GET"))
        assert (read_reply(in_head).status, read_reply(in_body).status) == (408, 408)
        eventually(lambda: cuts(server)["reply"] == before["reply"] + 1)
        # It is cut off in the middle; Python takes the reset for an end.
        assert 0 < len(drained(in_reply)) < LARGE_BYTES
    assert cuts(server) == before | {reason: before[reason] + 1 for reason in ("head", "body", "reply")}


def test_a_client_that_reads_slowly_but_in_time_gets_it_all(patient: ServerProcess) -> None:
    with patient.connect() as sock:
        sock.sendall(request("/large", method="GET"))
        received = 0
        while received < LARGE_BYTES:
            piece = sock.recv(65536)
            assert piece, f"cut off after {received} bytes"
            received += len(piece)
            if received % 50 == 0:
                time.sleep(0.001)


def test_strangers_do_not_push_out_who_has_shaken_hands(patient: ServerProcess) -> None:
    with contextlib.ExitStack() as stack:
        unused = stack.enter_context(patient.connect())
        for _ in range(1100):
            stack.enter_context(connect(patient.api))
        eventually(lambda: cuts(patient)["pressure"] >= 100)
        assert call(unused, request("/first")).status == 200
        assert get(patient.health, "/livez").body == b"ok"


def test_strangers_take_little_memory(server: ServerProcess, hello: bytes) -> None:
    before_mib = resident_mib(server)
    with contextlib.ExitStack() as stack:
        for number in range(800):
            sock = stack.enter_context(connect(server.api))
            # Half of them wait for the end of a message of 16 MiB that they have announced.
            sock.sendall(hello if number % 2 else b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + b"x" * 16_379)
        assert resident_mib(server) - before_mib < 100


def test_a_flood_of_handshakes_delays_requests_and_keeps_no_client_out(
    patient: ServerProcess, hello: bytes
) -> None:
    flood = subprocess.Popen(
        [sys.executable, "-c", FLOOD, str(patient.api[1]), hello.hex()], stdin=subprocess.PIPE
    )
    assert flood.stdin is not None
    try:
        with patient.connect() as kept:
            time.sleep(0.5)
            # How late depends on the machine; that each is answered does not.
            for _ in range(10):
                assert call(kept, LENGTH).status == 200
                with patient.connect() as fresh:
                    assert call(fresh, LENGTH).status == 200
    finally:
        flood.stdin.close()
        assert flood.wait(60) == 0


# Opens connections as fast as it can, each with a hello and no more, until its standard input ends.
FLOOD = """
import contextlib, select, socket, sys

while not select.select([sys.stdin], [], [], 0)[0]:
    with contextlib.ExitStack() as stack:
        for _ in range(900):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", int(sys.argv[1]))))
            with contextlib.suppress(OSError):
                sock.sendall(bytes.fromhex(sys.argv[2]))
"""
