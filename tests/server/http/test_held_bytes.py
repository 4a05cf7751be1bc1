"""Clients that do not read: memory is bounded, connections are limited, and probes are answered."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.metrics import write_cluster
from benchmarks.soak import resident_mib, worker_of
from tests.server.process.product import Product, config_file
from tests.server.process.server_process import (
    ServerProcess,
    call,
    connect,
    eventually,
    get,
    read_reply,
    request,
)

pytestmark = pytest.mark.process

# No slow machine reaches this bound: the requests of these tests take seconds.
TIMEOUT_S = 60
CONNECTIONS = 256
HELD_MIB = 64
LARGE = request("/large/8", method="GET")


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    with ServerProcess("--timeout-s", str(TIMEOUT_S)) as process:
        yield process.ready()


class NonReaders(contextlib.ExitStack):
    """Clients that send requests and do not read replies."""

    def ask(self, address: tuple[str, int], raw: bytes, count: int) -> list[socket.socket]:
        return [self._asked(address, raw) for _ in range(count)]

    def _asked(self, address: tuple[str, int], raw: bytes) -> socket.socket:
        sock = self.enter_context(socket.socket())
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(30)
        sock.connect(address)
        sock.sendall(raw)
        return sock


def held(worker: int, address: tuple[str, int]) -> list[int]:
    """For each connection that the server has open, the bytes that the kernel keeps for its client.

    Only files of the worker process count: the kernel also lists connections that wait to be accepted.
    """
    inodes = set()
    for file in Path(f"/proc/{worker}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            inodes.add(os.readlink(file).removeprefix("socket:[").rstrip("]"))
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    local = f":{address[1]:04X}"
    ours = [line for line in lines if line[9] in inodes and line[1].endswith(local) and line[3] == "01"]
    return [int(line[4].partition(":")[0], 16) for line in ours]


def cuts(server: ServerProcess, reason: str = "pressure") -> int:
    return int(get(server.api, "/cuts").json()[reason])


def arrives(sock: socket.socket) -> bool:
    """Whether a large reply arrives whole; the server resets a connection that it cuts."""
    try:
        return len(read_reply(sock).body) == 8 << 20
    except ConnectionResetError:
        return False


def test_unread_replies_are_held_up_to_a_bound(server: ServerProcess) -> None:
    worker = server.worker_pid()
    before = resident_mib(worker)
    with NonReaders() as clients:
        socks = clients.ask(server.health, LARGE, 40)
        # As many as the bound allows are held, and one more may be on its way.
        eventually(lambda: cuts(server) >= 40 - HELD_MIB // 8 - 1)
        assert resident_mib(worker) - before < 2 * HELD_MIB
        # The order of the replies, which depends on the machine, decides which of them are cut.
        whole = sum(map(arrives, socks))
        assert 0 < whole <= HELD_MIB // 8 + 1
        assert cuts(server) == 40 - whole
    assert get(server.health, "/livez").body == b"ok"


def test_a_reply_larger_than_the_bound_arrives_whole(server: ServerProcess) -> None:
    with NonReaders() as clients:
        (sock,) = clients.ask(server.health, request(f"/large/{2 * HELD_MIB}", method="GET"), 1)
        # Other requests are answered meanwhile, and no connection is cut.
        for _ in range(3):
            assert get(server.health, "/livez").body == b"ok"
        assert len(read_reply(sock).body) == 2 * HELD_MIB << 20
    assert cuts(server) == 0


def test_bodies_that_wait_for_a_thread_count(server: ServerProcess) -> None:
    """Four requests occupy the threads, and the others wait with bodies of nearly the limit."""
    worker = server.worker_pid()
    before = resident_mib(worker)
    body = bytes((4 << 20) - 1000)
    with NonReaders() as clients:
        clients.ask(server.health, request("/wait", method="GET"), 4)
        for _ in range(60):
            with contextlib.suppress(OSError):
                clients.ask(server.health, request("/wait", body), 1)
        eventually(lambda: cuts(server) > 0)
        assert resident_mib(worker) - before < 2 * HELD_MIB
        assert get(server.health, "/livez").body == b"ok"
        assert get(server.api, "/go-on").status == 200


def test_connections_stay_at_their_limit_and_probes_are_answered(server: ServerProcess) -> None:
    """Four requests occupy the threads, and those that wait for a thread make room for new connections."""
    with NonReaders() as clients:
        clients.ask(server.health, request("/wait", method="GET"), CONNECTIONS + 100)
        eventually(lambda: cuts(server) >= 100)
        for _ in range(5):
            assert get(server.health, "/livez").body == b"ok"
            # The event loop takes some turns to close a connection that it has cut.
            eventually(
                lambda: CONNECTIONS - 1 <= len(held(server.worker_pid(), server.health)) <= CONNECTIONS + 1
            )
        assert get(server.api, "/go-on").status == 200


def test_a_probe_does_not_wait_for_other_replies(server: ServerProcess) -> None:
    with NonReaders() as clients, connect(server.health) as probe:
        waiting = clients.ask(server.health, request("/wait", method="GET"), 20)
        for path in ("/livez", "/readyz", "/readyz?verbose"):
            assert call(probe, request(path, method="GET")).body == b"ok"
        assert get(server.api, "/go-on").status == 200
        for sock in waiting:
            assert read_reply(sock).body == b"ok"


def test_unread_scrapes_share_their_text(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.json"
    write_cluster(inventory, 1500)
    config = config_file(tmp_path, server={"writeTimeout": f"{TIMEOUT_S}s"})
    with Product(inventory=inventory, config=config) as server:
        server.ready()
        worker = worker_of(server.process.pid)
        size_mib = len(get(server.health, "/metrics").body) / 2**20
        get(server.health, "/metrics")
        before = resident_mib(worker)
        with NonReaders() as clients:
            clients.ask(server.health, request("/metrics", method="GET"), 300)
            # All of them were sent before this one, and as many as the limit allows wait.
            assert len(get(server.health, "/metrics").body) / 2**20 == pytest.approx(size_mib, rel=0.01)
            assert get(server.health, "/livez").body == b"ok"
            assert get(server.health, "/readyz").body == b"ok"
            # The event loop takes some turns to close a connection that it has cut.
            eventually(lambda: CONNECTIONS - 10 < len(held(worker, server.health)) <= CONNECTIONS + 1)
            assert max(held(worker, server.health)) < 2**20
            # Without sharing it would be 250 times as much.
            assert resident_mib(worker) - before < 10 * size_mib + 30
