"""Gangs of plain pods on a real control plane."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.e2e.cluster.api import eventually
from tests.e2e.gangs.gang_cluster import Gangs, running_gang_cluster
from tests.e2e.installation import Installation

pytestmark = [pytest.mark.decisions]


@pytest.fixture(scope="module")
def gang_installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running_gang_cluster(tmp_path_factory.mktemp("gangs")) as installation:
        yield installation


@pytest.fixture
def gangs(gang_installation: Installation) -> Iterator[Gangs]:
    gang_installation.await_ready()
    gangs = Gangs(gang_installation)
    yield gangs
    gangs.close()


def test_a_gang_starts_whole(gangs: Gangs) -> None:
    gangs.add_whole("a", 2)
    gangs.add_whole("b", 2)
    gangs.publish()
    gangs.add("train", 4)
    eventually(lambda: len(gangs.on_nodes("train")) == 4, "all members run")
    assert sorted(gangs.on_nodes("train").values()) == sorted([gangs.name("a")] * 2 + [gangs.name("b")] * 2)
    eventually(lambda: gangs.events("GPUGangStarting"), "an Event says so")


def test_a_gang_that_does_not_fit_waits_whole(gangs: Gangs) -> None:
    gangs.add_whole("a", 2)
    gangs.publish()
    gangs.add("train", 3)
    eventually(lambda: gangs.events("GPUGangWaiting"), "an Event says what is missing")
    assert "2 of 3 members fit; 1 × nvidia.com/gpu short" in gangs.events("GPUGangWaiting")[-1]
    time.sleep(2)
    assert (gangs.gated("train"), gangs.on_nodes("train")) == ({"train-0", "train-1", "train-2"}, {})


def test_the_last_member_starts_all(gangs: Gangs) -> None:
    gangs.add_whole("a", 4)
    gangs.publish()
    gangs.add("train", 3, some=(0, 1))
    eventually(lambda: gangs.events("GPUGangWaiting"), "an Event counts the members")
    assert gangs.on_nodes("train") == {}
    gangs.add("train", 3, some=(2,))
    eventually(lambda: len(gangs.on_nodes("train")) == 3, "all members run")
