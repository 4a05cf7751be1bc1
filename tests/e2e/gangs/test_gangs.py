"""Gangs of plain pods on a real control plane."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.cluster.api import eventually
from tests.e2e.gangs.gang_cluster import PREFIX, Gangs, running_gang_cluster
from tests.e2e.installation import Installation


@pytest.fixture(scope="module")
def gang_installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running_gang_cluster(tmp_path_factory.mktemp("gangs")) as installation:
        yield installation


@pytest.fixture
def gangs(gang_installation: Installation) -> Iterator[Gangs]:
    with Gangs(gang_installation) as gangs:
        yield gangs


def test_a_gang_starts_whole(gangs: Gangs) -> None:
    gangs.add_whole("a", 2)
    gangs.add_whole("b", 2)
    gangs.publish()
    gangs.add("train", 4)
    eventually(lambda: len(gangs.on_nodes("train")) == 4, "all members run")
    assert sorted(gangs.on_nodes("train").values()) == sorted([gangs.name("a")] * 2 + [gangs.name("b")] * 2)
    eventually(lambda: gangs.notes("GPUGangStarting"), "an Event says so")


def test_a_gang_that_does_not_fit_waits_whole(gangs: Gangs) -> None:
    gangs.add_whole("a", 2)
    gangs.publish()
    gangs.add("train", 3)
    missing = "2 of 3 members fit; 1 × nvidia.com/gpu short"
    eventually(
        lambda: any(missing in note for note in gangs.notes("GPUGangWaiting")),
        "an Event says what is missing",
    )
    gangs.await_plan()
    assert (gangs.gated("train"), gangs.on_nodes("train")) == ({"train-0", "train-1", "train-2"}, {})


def test_smaller_pods_leave_the_places_of_a_gang(gangs: Gangs) -> None:
    gangs.add_whole("a", 2)
    gangs.publish()
    gangs.create(gangs.member("long-0"))
    eventually(lambda: gangs.on_nodes("long"), "a pod runs")
    gangs.add("train", 2)
    eventually(lambda: gangs.notes("GPUGangWaiting"), "the gang waits")
    gangs.create(gangs.member("later-0"))
    gangs.installation.await_rest(1)
    assert gangs.on_nodes("later") == {}
    gangs.delete("long-0")
    eventually(lambda: len(gangs.on_nodes("train")) == 2, "the gang starts")
    assert gangs.on_nodes("later") == {}
    gangs.delete("train-0", "train-1")
    eventually(lambda: gangs.on_nodes("later"), "the later pod has its turn")


def test_a_member_that_never_starts_ends_the_gang(gangs: Gangs) -> None:
    """A node goes while the gang starts; no other takes the member."""
    gangs.add_whole("a", 2)
    gangs.add_whole("b", 1)
    gangs.publish()
    gangs.add("train", 3, notes={f"{PREFIX}gang-deadline": "10s"})
    eventually(lambda: len(gangs.on_nodes("train")) == 3, "all members run")
    (late,) = (name for name, node in gangs.on_nodes("train").items() if node == gangs.name("b"))
    gangs.remove_node(gangs.name("b"))
    gangs.delete(late)
    gangs.add("train", 3, some=(int(late[-1]),), notes={f"{PREFIX}gang-deadline": "10s"})
    eventually(lambda: gangs.on_nodes("train") == {}, "the gang is evicted whole", 40)
    eventually(lambda: gangs.notes("GPUGangEvicted"), "an Event says why")


def test_a_gang_evicts_pods_of_lower_priority(gangs: Gangs) -> None:
    gangs.add_whole("a", 2)
    gangs.add_whole("b", 2)
    gangs.publish()
    for number in range(4):
        gangs.create(gangs.member(f"small-{number}"))
    eventually(lambda: len(gangs.on_nodes("small")) == 4, "the nodes are full")
    important = gangs.important()
    gangs.add("train", 3, priority_class=important)
    eventually(lambda: len(gangs.on_nodes("train")) == 3, "the gang starts")
    assert len(gangs.on_nodes("small")) == 1
    eventually(lambda: gangs.notes("GPUGangEvicted"), "an Event says why")


def test_a_budget_keeps_pods_from_a_gang(gangs: Gangs) -> None:
    gangs.add_whole("a", 2)
    gangs.publish()
    for number in range(2):
        gangs.create(gangs.member(f"small-{number}", labels={"app": "small"}))
    gangs.await_running("small-0", "small-1")
    budgets = f"/apis/policy/v1/namespaces/{gangs.namespace}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "small"}}}
    gangs.api.create(budgets, {"metadata": {"name": "small"}, "spec": spec})
    eventually(
        lambda: gangs.api.get(f"{budgets}/small").get("status", {}).get("disruptionsAllowed") == 1,
        "the budget is known",
    )
    important = gangs.important()
    gangs.add("train", 2, priority_class=important)
    eventually(lambda: gangs.notes("GPUGangWaiting"), "the gang waits")
    gangs.await_plan()
    assert len(gangs.on_nodes("small")) == 2
    assert gangs.on_nodes("train") == {}
    gangs.api.delete(f"{budgets}/small")
    eventually(lambda: len(gangs.on_nodes("train")) == 2, "the gang starts without the budget")
