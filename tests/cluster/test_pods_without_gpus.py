"""Pods without GPUs are followed for the CPU that they take of their node."""

from __future__ import annotations

import pytest

from scheduler_ext.core.node.state import cpu_free_milli
from scheduler_ext.wire.watching import Broken
from tests.cluster.test_inventory_handlers import WHOLE, Told, reported
from tests.kube_objects import Json, node, pod


@pytest.fixture
def told() -> Told:
    """A node "a" of 64 cores and one GPU, one "b" without."""
    built = Told()
    built.see_nodes(node("a", {WHOLE: "1"}), node("b"))
    built.see_reports(reported("a"))
    built.inventory.take_changes()
    built.waking()
    return built


def web(name: str, cpu: object = "8", on: str | None = "a", **fields: object) -> Json:
    return pod(name, {"cpu": cpu}, on=on, **fields)  # type: ignore[arg-type]  # those of a pod


def elsewhere(told: Told) -> int:
    info = told.inventory.info("a")
    assert info is not None
    return info.cpu_elsewhere_milli


def test_remaining_parts_of_the_node(told: Told) -> None:
    told.see_pods(web("p"), web("q", "500m"), pod("holds", {WHOLE: "1", "cpu": "4"}, on="a"))
    assert elsewhere(told) == 8500
    info = told.inventory.info("a")
    assert info is not None
    # 51.5 cores in steps of four.
    assert cpu_free_milli(info) == 48_000
    assert told.waking()


@pytest.mark.parametrize(
    ("pods", "milli"),
    [
        pytest.param([web("p"), web("p", on="b")], 0, id="one that is elsewhere now"),
        pytest.param([web("p"), web("p", phase="Failed")], 0, id="one that has finished"),
        pytest.param([web("p", phase="Succeeded")], 0, id="one that was heard of too late"),
        pytest.param([web("p", on=None)], 0, id="one that waits"),
        pytest.param([web("p"), web("p", "2")], 2000, id="one that asks less now"),
        pytest.param([web("p"), web("q", "many")], 8000, id="an unreadable one"),
        pytest.param([web("p"), web("q", ["8"])], 8000, id="nor decode"),
    ],
)
def test_the_pods_that_count(told: Told, pods: list[Json], milli: int) -> None:
    for each in pods:
        told.see_pods(each)
    assert elsewhere(told) == milli


def test_no_pod_is_woken_for_a_change_without_effect_on_decisions(told: Told) -> None:
    told.see_pods(web("p", "1"))
    told.inventory.take_changes()
    told.waking()
    told.see_pods(web("q", "1m"), web("r", on="b"))
    assert not told.waking()


def test_pods_that_a_list_lacks_no_longer_count(told: Told) -> None:
    told.see_pods(*(web(name) for name in "pqr"))
    told.pods.begin()
    told.see_pods(web("p"))
    told.pods.broken(Broken("default/q", "uid-q", "cannot be read"))
    told.see_pods(web("s", "1"))
    assert elsewhere(told) == 25_000
    told.pods.end()
    assert elsewhere(told) == 17_000
    assert told.pods._unlisted == set()
