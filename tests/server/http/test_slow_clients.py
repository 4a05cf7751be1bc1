"""Clients that are slow to send or to read delay no other client, and are cut off at the deadline."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pytest

from tests.server.http.slow_clients import CLIENTS, SlowClients
from tests.server.process.server_process import (
    ServerProcess,
    call,
    connect,
    eventually,
    get,
    read_reply,
    read_to_end,
    request,
    timed,
)

pytestmark = pytest.mark.process

TIMEOUT_S = 1.5
LENGTH_100 = request("/length", b"x" * 100)
CHUNKED = b"POST /length HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"

# What each kind of client sends, and what it trickles afterwards, byte by byte.
KINDS: dict[str, tuple[bytes, bytes]] = {
    "stalls in the head": (LENGTH_100[:20], b""),
    "stalls in the body": (LENGTH_100[:-50], b""),
    "stalls in a chunk": (CHUNKED + b"64\r\nxxx", b""),
    "trickles the head": (LENGTH_100[:5], LENGTH_100[5:]),
    "trickles the body": (LENGTH_100[:-90], LENGTH_100[-90:]),
    "does not read": (request("/large"), b""),
    "reads byte by byte": (request("/large"), b""),
}
CUT = {
    "head": ("stalls in the head", "trickles the head"),
    "body": ("stalls in the body", "stalls in a chunk", "trickles the body"),
    "reply": ("does not read", "reads byte by byte"),
    "tls": (),
    "pressure": (),
    "error": (),
}


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("--timeout-s", str(TIMEOUT_S)) as process:
        yield process.ready()


def usual_s(probe: Callable[[], float], for_s: float) -> float:
    """The median of repeated probes: a busy machine delays some, and a wait for slow clients all."""
    until = time.monotonic() + for_s
    took_s: list[float] = []
    while len(took_s) < 5 or time.monotonic() < until:
        took_s.append(probe())
        time.sleep(0.02)
    return median(took_s)


def test_hundreds_of_slow_clients_delay_no_other_and_are_cut_off(server: ServerProcess) -> None:
    before = get(server.api, "/cuts").json()
    with (
        SlowClients(server.api, KINDS) as clients,
        connect(server.api) as good,
        connect(server.health) as probe,
    ):

        def both() -> float:
            kept, kept_s = timed(good, request("/length", b"x" * 250_000))
            health, health_s = timed(probe, request("/livez", method="GET"))
            assert (kept.status, health.status) == (200, 200)
            fresh = time.monotonic()
            assert get(server.api, "/fresh").status == 200
            return max(kept_s, health_s, time.monotonic() - fresh)

        # The promise of one second is for 64 clients; these are seven times as many, and two kinds get
        # replies of 8 MB.
        assert usual_s(both, TIMEOUT_S + 0.5) < 1.0
        expected = {reason: before[reason] + CLIENTS * len(kinds) for reason, kinds in CUT.items()}
        eventually(lambda: get(server.api, "/cuts").json() == expected)
        clients.stop()
        for kind in (*CUT["head"], *CUT["body"]):
            for sock in clients.sockets[kind]:
                reply = read_reply(sock)
                assert reply.status == 408, kind
                assert "did not arrive whole within 1.5 s" in reply.json()["error"]
        for kind in CUT["reply"]:
            for sock in clients.sockets[kind]:
                with pytest.raises(ConnectionResetError):
                    read_to_end(sock)


def test_slow_clients_of_health_do_not_delay_it(server: ServerProcess) -> None:
    with SlowClients(server.health, KINDS), connect(server.health) as probe:

        def probe_s() -> float:
            reply, took_s = timed(probe, request("/livez", method="GET"))
            assert reply.body == b"ok"
            return took_s

        # A probe that waits for a slow client waits until its deadline.
        assert usual_s(probe_s, 1.0) < TIMEOUT_S / 2


def test_idle_connections_stay_and_serve_later(server: ServerProcess) -> None:
    with contextlib.ExitStack() as stack:
        unused = [stack.enter_context(connect(server.api)) for _ in range(CLIENTS)]
        used = stack.enter_context(connect(server.api))
        call(used, request("/first"))
        time.sleep(TIMEOUT_S + 0.5)
        for sock in (used, *unused):
            assert call(sock, request("/later")).status == 200


def test_too_many_connections_replace_idle_ones_that_sent_no_request(server: ServerProcess) -> None:
    with contextlib.ExitStack() as stack:
        used = stack.enter_context(connect(server.api))
        call(used, request("/first"))
        for _ in range(1100):
            stack.enter_context(connect(server.api))
        eventually(lambda: get(server.api, "/cuts").json()["pressure"] >= 100)
        assert call(used, request("/again")).status == 200


def test_a_slow_client_that_finishes_in_time_is_served(server: ServerProcess) -> None:
    def finishes() -> bool:
        """Whether it was served; on a busy machine it may be too late, and is cut off."""
        started = time.monotonic()
        with connect(server.api) as sock, contextlib.suppress(ConnectionError):
            for position in range(0, len(LENGTH_100), 20):
                sock.sendall(LENGTH_100[position : position + 20])
                time.sleep(0.05)
            reply = read_reply(sock)
            if reply.status == 200:
                return bool(reply.json()["length"] == 100)
        assert time.monotonic() - started > TIMEOUT_S
        return False

    eventually(finishes)


def test_unfinished_bodies_together_are_bounded() -> None:
    """Five bodies of nearly the limit exceed the bound, which is four times the limit."""
    body = b"x" * (4 * 1024 * 1024 - 10)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(ServerProcess("--timeout-s", "60")).ready()
        socks = [stack.enter_context(connect(server.api)) for _ in range(5)]
        for sock in socks:
            sock.sendall(request("/length", body)[:-1])
        reply = read_reply(socks[0])
        assert reply.status == 503
        assert "unfinished" in reply.json()["error"]
        socks[4].sendall(b"x")
        assert read_reply(socks[4]).json()["length"] == len(body)


def test_many_unfinished_bodies_take_no_more_memory_than_a_few(server: ServerProcess) -> None:
    status = Path(f"/proc/{server.worker_pid()}/status")

    def resident_mib() -> int:
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status.read_text())[0]) // 1024

    body = b"x" * (4 * 1024 * 1024 - 200_000)
    before = resident_mib()
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            sock = stack.enter_context(connect(server.api))
            with contextlib.suppress(OSError):
                sock.sendall(request("/length", body)[:-1])
        # Four times the limit of 4 MiB may be held, and 288 KiB in the buffers of each connection, but not
        # forty times the limit, also while the refused ones linger.
        assert resident_mib() - before < 80
