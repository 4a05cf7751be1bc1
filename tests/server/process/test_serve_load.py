"""Eight connections at once: each gets its own answers, even while the inventory changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.process.clients import Client
from tests.server.process.product import (
    GOLDEN,
    INVENTORY,
    Product,
    answers_of,
    replaced,
)
from tests.server.process.server_process import Reply, eventually, get, request

pytestmark = pytest.mark.process

# Without preempt, which remembers named nodes: answers for other pods change for a while.
BODIES = [
    (verb, path.read_bytes())
    for path in sorted(GOLDEN.glob("*.json"))
    if (verb := path.name.split(".")[1]) != "preempt"
]


@pytest.fixture
def clients() -> Iterator[list[Client]]:
    """The clients of a test; they end with it."""
    started: list[Client] = []
    yield started
    for client in started:
        client.end()


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
    expected = list(zip(BODIES, answers_of(OLD, BODIES), answers_of(NEW, BODIES), strict=True))
    differing = [(*request_, old, new) for request_, old, new in expected if old != new]
    witnesses = [Witness(old, new) for _, _, old, new in differing]
    assert len(witnesses) >= 8
    clients = [
        Client(server, request(f"/{verb}", body), witness)
        for (verb, body, _, _), witness in zip(differing, witnesses, strict=True)
    ]
    return clients, witnesses


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
