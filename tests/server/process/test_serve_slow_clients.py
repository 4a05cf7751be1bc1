"""Slow clients by the dozen delay no good request and no probe, and are cut off at the deadline."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from statistics import median

import pytest

from tests.kube_objects import names_body
from tests.server.http.slow_clients import CLIENTS, SlowClients
from tests.server.process.product import GOOD, ONE_GPU, Product, assert_well, config_file
from tests.server.process.server_process import call, connect, eventually, read_reply, read_to_end, request

pytestmark = pytest.mark.process

TIMEOUT_S = 1.5
FILTER = request("/filter", GOOD)
# With 20,000 names of 253 bytes the reply of 6 MB is beyond what the kernel takes off the server's hands.
LARGE = request("/filter", names_body(ONE_GPU, [f"{n:06d}".ljust(253, "n") for n in range(20_000)]))
CHUNKED = b"POST /filter HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"

# What each kind sends, what it trickles afterwards, byte by byte, and the deadline that it misses.
KINDS: dict[str, tuple[bytes, bytes, str]] = {
    "does not read its reply": (LARGE, b"", "reply"),
    "stalls in the headers": (FILTER[:20], b"", "head"),
    "trickles the headers": (FILTER[:5], FILTER[5:60], "head"),
    "stalls in the body": (FILTER[:-50], b"", "body"),
    "stalls in a chunk": (CHUNKED + b"64\r\nxxx", b"", "body"),
    "trickles the body": (FILTER[:-90], FILTER[-90:-10], "body"),
}


class Probes:
    """Repeats one probe on a thread of its own until it leaves, and keeps how long each took."""

    def __init__(self, probe: Callable[[], object]) -> None:
        self.took_s: list[float] = []
        self.failure: BaseException | None = None
        self._probe = probe
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.02):
                started = time.monotonic()
                self._probe()
                self.took_s.append(time.monotonic() - started)
        except BaseException as failure:
            self.failure = failure

    def __enter__(self) -> Probes:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    timeouts = {"readTimeout": f"{TIMEOUT_S}s", "writeTimeout": f"{TIMEOUT_S}s", "decisionDeadline": "60s"}
    # Four bodies of this size are the bound on what replies hold, and those here take 400 MB.
    config = config_file(tmp_path_factory.mktemp("slow"), server=timeouts | {"maxBodyBytes": 2**28})
    with Product(config=config) as process:
        yield process.ready()


def cuts(server: Product) -> dict[str, float]:
    """How many were cut off, by reason."""
    name = 'gpu_extender_connections_cut_total{reason="'
    samples = server.samples().items()
    return {key.removeprefix(name)[:-2]: value for key, value in samples if key.startswith(name)}


def test_good_requests_and_probes_are_quick_among_slow_clients(server: Product) -> None:
    expected = dict.fromkeys(("head", "body", "reply", "tls", "pressure", "error"), 0)
    for _, _, missed in KINDS.values():
        expected[missed] += CLIENTS
    with connect(server.api) as kept, connect(server.health) as health:

        def good() -> None:
            assert_well(call(kept, FILTER))

        def fresh() -> None:
            assert_well(server.post("filter", GOOD))

        def alive() -> None:
            assert call(health, request("/livez", method="GET")).body == b"ok"

        with Probes(good) as goods, Probes(fresh) as freshes, Probes(alive) as lives:
            first_and_rest = {kind: (first, rest) for kind, (first, rest, _) in KINDS.items()}
            with SlowClients(server.api, first_and_rest) as clients:
                eventually(lambda: cuts(server) == expected)
                clients.stop()
                for kind, (_, _, missed) in KINDS.items():
                    for sock in clients.sockets[kind]:
                        assert_cut_off(sock, missed)
    # A busy machine delays some of them; what waits for slow clients delays all.
    for probes in (goods, freshes, lives):
        assert len(probes.took_s) >= 5
        assert median(probes.took_s) < 1.0


def assert_cut_off(sock: socket.socket, missed: str) -> None:
    """A reply that was not fetched is dropped; a client that did not send gets an error."""
    if missed == "reply":
        with pytest.raises(ConnectionResetError):
            read_to_end(sock)
    else:
        reply = read_reply(sock)
        assert (reply.status, reply.headers["connection"]) == (408, "close")
        assert "did not arrive whole within 1.5 s" in reply.json()["error"]


def test_the_deadline_is_kept_and_counts_the_whole_request(server: Product) -> None:
    with connect(server.api) as in_head, connect(server.api) as in_body, connect(server.api) as trickling:
        started = time.monotonic()
        in_head.sendall(FILTER[:20])
        in_body.sendall(FILTER[:-1])
        # All of it would take half a minute, and be served.
        for position in range(len(FILTER)):
            trickling.sendall(FILTER[position : position + 1])
            if select.select([trickling], [], [], 0.1)[0]:
                break
        assert read_reply(in_head).status == read_reply(in_body).status == read_reply(trickling).status == 408
        assert time.monotonic() - started >= TIMEOUT_S
