"""The order in which nominations are written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.core.node.node import PlannedNode
from scheduler_ext.features.gangs.live import nomination_writer
from scheduler_ext.features.gangs.live.nomination_writer import NominationWriter, Write
from tests.cluster.following import eventually


class Slow(Transport):
    """An API server that answers when it is let."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.answers = threading.Semaphore(0)

    def send(self, method: str, path: str, *given: Any, **more: Any) -> Any:
        self.written.append(path.split("/")[-2])
        self.answers.acquire()


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[NominationWriter, Slow]]:
    """A writer on one connection that is busy."""
    monkeypatch.setattr(nomination_writer, "_CONNECTIONS", 1)
    server = Slow()
    writer = NominationWriter(server)
    writer.start()
    writer.put([write("busy")])
    eventually(lambda: server.written == ["busy"])
    server.written.clear()
    yield writer, server
    writer.clear()
    server.answers.release(100)
    writer.stop(5.0)


@dataclass(frozen=True)
class Pod:
    """A pod whose uid is its name."""

    name: str
    namespace: str = "ml"

    @property
    def uid(self) -> str:
        return self.name


def write(name: str) -> Write:
    return Write(Pod(name), PlannedNode("a", 9.0))


def order(writer: NominationWriter, server: Slow, count: int) -> list[str]:
    server.answers.release(100)
    eventually(lambda: len(server.written) == count)
    return server.written


def test_a_pod_has_one_write_which_keeps_its_turn(writer: tuple[NominationWriter, Slow]) -> None:
    writer[0].put([write("a"), write("b")])
    writer[0].put([write("a"), write("c")])
    assert order(*writer, 3) == ["a", "b", "c"]


def test_a_nomination_without_a_place_is_dropped_and_a_withdrawal_is_not(
    writer: tuple[NominationWriter, Slow],
) -> None:
    writer[0].put([write("a"), write("b"), Write(Pod("w"), None)])
    for name in ("a", "w", "unknown"):
        writer[0].drop(name)
    assert order(*writer, 2) == ["b", "w"]


def test_two_writes_of_one_pod_do_not_overtake_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nomination_writer, "_CONNECTIONS", 2)
    server = Slow()
    writer = NominationWriter(server)
    writer.start()
    writer.put([write("a")])
    eventually(lambda: server.written == ["a"])
    writer.put([Write(Pod("a"), None), write("b")])
    eventually(lambda: server.written == ["a", "b"])
    server.answers.release(100)
    eventually(lambda: server.written == ["a", "b", "a"])
    writer.stop(5.0)
