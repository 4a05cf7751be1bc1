"""Eight connections at once: right answers, even while the inventory changes and while the server stops."""

from __future__ import annotations

import itertools
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from scheduler_ext.extender.answer import Answer
from scheduler_ext.server.app import NO_BIND, Verb
from scheduler_ext.server.server_options import TlsFiles
from tests.kube_objects import names_body
from tests.server.http.authority import Authority, flags
from tests.server.process.product import (
    GOLDEN,
    INVENTORY,
    ONE_GPU,
    Product,
    extender_on,
    replaced,
)
from tests.server.process.server_process import Reply, call, eventually, get, request

pytestmark = pytest.mark.process

CLIENTS = 8
# Without preempt, which remembers named nodes: answers for other pods change for a while.
BODIES = [
    (verb, path.read_bytes())
    for path in sorted(GOLDEN.glob("*.json"))
    if (verb := path.name.split(".")[1]) != "preempt"
]
Exchange = tuple[bytes, Callable[[Reply], object]]


class Client(threading.Thread):
    """Sends its requests in a circle on one kept-alive connection, each after the last answer.

    Ends on command, or when the server ends the connection: with a reply that says so, then a refused
    connection.
    """

    def __init__(self, server: Product, exchanges: Sequence[Exchange], start: int = 0) -> None:
        super().__init__()
        self.answers = 0
        self.failure: str | None = None
        self._server = server
        self._exchanges = itertools.islice(itertools.cycle(exchanges), start, None)
        self._stopping = threading.Event()

    def run(self) -> None:
        since = time.monotonic()
        try:
            while not self._stopping.is_set():
                since = time.monotonic()
                with self._server.connect() as sock:
                    for raw, check in self._exchanges:
                        since = time.monotonic()
                        reply = call(sock, raw)
                        check(reply)
                        self.answers += 1
                        if reply.headers["connection"] == "close" or self._stopping.is_set():
                            break
        except ConnectionRefusedError:
            return
        except (OSError, AssertionError) as error:
            # A server that stops waits two seconds for a connection that is idle, and no longer.
            if isinstance(error, AssertionError) or time.monotonic() - since < 1.5:
                self.failure = f"after {self.answers} answers: {error!r}"

    def end(self) -> None:
        self._stopping.set()
        self.join()


@pytest.fixture
def clients() -> Iterator[list[Client]]:
    """The clients of a test; they end with it."""
    started: list[Client] = []
    yield started
    for client in started:
        client.end()


def exactly(status: int, body: bytes) -> Callable[[Reply], None]:
    def check(reply: Reply) -> None:
        assert (reply.status, reply.body) == (status, body)

    return check


def answers_of(inventory_text: bytes) -> list[bytes]:
    """The expected answers to all BODIES on an inventory."""
    extender = extender_on(inventory_text)
    verbs: dict[str, Verb] = {
        "filter": extender.filter,
        "prioritize": extender.prioritize,
        "preempt": extender.preemptor.preempt,
        # No cluster for binds.
        "bind": lambda body, deadline: Answer(NO_BIND, 1, 0),
    }
    return [verbs[verb](body, time.monotonic() + 60).body for verb, body in BODIES]


def mixed() -> list[Exchange]:
    """Good requests and bad ones between them."""
    answers = answers_of(INVENTORY.read_bytes())
    good = [
        (request(f"/{verb}", body), exactly(200, answer))
        for (verb, body), answer in zip(BODIES, answers, strict=True)
    ]
    bad = [
        (
            request("/filter", b'{"Pod":{},"NodeNames":"n"}'),
            exactly(400, b'{"error":"NodeNames: Expected `array | null`, got `str`"}'),
        ),
        (request("/prioritize", b"["), exactly(400, b'{"error":"body: Expected `object`, got `array`"}')),
        (
            request("/prioritize", b"{", "Content-Type: a/b"),
            exactly(415, b'{"error":"Content-Type: \'a/b\'; send application/json"}'),
        ),
        (request("/nosuch", b"{}"), exactly(404, b'{"error":"404 Not Found: POST /nosuch"}')),
        (
            request("/filter", names_body(ONE_GPU, ["nosuch"])),
            exactly(
                200,
                b'{"Nodes":null,"NodeNames":[],"FailedNodes":{},"FailedAndUnresolvableNodes":'
                b'{"nosuch":"node(s) had no fresh GPU inventory"},"Error":""}',
            ),
        ),
    ]
    return [exchange for pair in zip(good, itertools.cycle(bad), strict=False) for exchange in pair]


def test_eight_connections_get_their_own_answers_until_the_server_stops(
    authority: Authority, files: TlsFiles, clients: list[Client]
) -> None:
    with Product(*flags(files), tls=authority.client()) as server:
        server.ready()
        exchanges = mixed()
        clients += [Client(server, exchanges, start=5 * number) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        eventually(lambda: all(client.answers > len(exchanges) or client.failure for client in clients))
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        for client in clients:
            client.join()
        assert [client.failure for client in clients if client.failure] == []
        assert "Traceback" not in server.stderr


class Witness:
    """Records the inventory of each answer: o or n."""

    def __init__(self, old: bytes, new: bytes) -> None:
        self.history = ""
        self._letters = {old: "o", new: "n"}

    def __call__(self, reply: Reply) -> None:
        assert (reply.status, reply.body in self._letters) == (200, True), reply.body[:300]
        self.history += self._letters[reply.body]


OLD = INVENTORY.read_bytes()
# One node's objects are gone, and only the GPUs in MIG mode are free.
NEW = b"---\n".join(part for part in OLD.split(b"---\n") if b"gpu-node-01" not in part).replace(
    b"nvidia.com/gpu: '8'}", b"nvidia.com/gpu: '0'}"
)
BROKEN = NEW[: len(NEW) // 2] + b"\n  }{ ["


def witnessing_clients(server: Product) -> tuple[list[Client], list[Witness]]:
    """One for each of the bodies whose answer changes with the inventory, at least eight."""
    expected = list(zip(BODIES, answers_of(OLD), answers_of(NEW), strict=True))
    differing = [(*request_, old, new) for request_, old, new in expected if old != new]
    witnesses = [Witness(old, new) for _, _, old, new in differing]
    exchanges = [
        (request(f"/{verb}", body), witness)
        for (verb, body, _, _), witness in zip(differing, witnesses, strict=True)
    ]
    assert len(exchanges) >= CLIENTS
    return [Client(server, [exchange]) for exchange in exchanges], witnesses


def test_a_changed_inventory_is_taken_whole_and_a_broken_one_not_at_all(
    tmp_path: Path, clients: list[Client]
) -> None:
    path = tmp_path / "inventory.yaml"
    replaced(path, OLD)
    with Product(inventory=path) as server:
        server.ready()

        def verbose() -> list[str]:
            reply = get(server.health, "/readyz?verbose")
            assert reply.status == 200
            return reply.body.decode().splitlines()

        def gauges() -> tuple[float, float]:
            samples = server.samples()
            return samples["gpu_extender_snapshot_generation"], samples["gpu_extender_inventory_broken"]

        new_clients, witnesses = witnessing_clients(server)
        clients += new_clients
        for client in clients:
            client.start()
        eventually(lambda: all(len(witness.history) > 3 for witness in witnesses))
        assert gauges() == (1, 0)
        replaced(path, NEW)
        eventually(lambda: gauges() == (2, 0))
        seen = [len(witness.history) for witness in witnesses]
        replaced(path, BROKEN)
        eventually(lambda: gauges() == (2, 1))
        problem = f"{path}: neither YAML nor JSON"
        ready, reload, passed = verbose()
        assert (ready, passed) == ("[+]inventory ok", "readyz check passed")
        assert reload.startswith(f"[+]inventory-reload the old inventory is served: {problem}")
        kept = [len(witness.history) for witness in witnesses]
        replaced(path, OLD)
        eventually(lambda: gauges() == (3, 0))
        assert verbose() == [ready, passed]
        eventually(lambda: all(witness.history.endswith("o") for witness in witnesses))
        for client in clients:
            client.end()
        assert [client.failure for client in clients if client.failure] == []
        for witness, start, end in zip(witnesses, seen, kept, strict=True):
            assert re.fullmatch(r"o+n+o+", witness.history)
            # One answer may have been on its way when the new generation was seen.
            assert set(witness.history[start + 1 : end]) == {"n"}
        (line,) = [line for line in server.lines if "inventory not reloaded" in line]
        assert f"the old one stays: {problem}" in line
        read = [line.split("generation ")[1] for line in server.lines if "inventory read: " in line]
        assert read == ["1", "2", "3"]
