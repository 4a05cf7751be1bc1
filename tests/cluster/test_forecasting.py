"""The followed pods: the forecast changes with them, seldom, and before any request."""

from __future__ import annotations

import pytest

from scheduler_ext.background import RateLimiter
from scheduler_ext.cluster.forecasting import EVERY_S, Forecasting
from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from tests.cluster.test_inventory_handlers import Told
from tests.kube_objects import Json, pod

WHOLE = "nvidia.com/gpu"
ONE, TWO = TaskClass(gpus=1), TaskClass(gpus=2)


def asking(name: str, gpus: int = 1, **fields: object) -> Json:
    return pod(name, {WHOLE: str(gpus)}, **fields)  # type: ignore[arg-type]  # those of a pod


class Foreseen:
    """Forecasting on a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.told = Told()
        self.extender = self.told.extender
        self.extender.replace_nodes([])
        rate_limiter = RateLimiter(lambda: False)
        self.forecasting = Forecasting(self.told.locked, self.extender, rate_limiter, lambda: self.now)
        self.come(*(asking(f"p{i}") for i in range(20)))
        self.forecasting.look()

    def come(self, *pods: Json) -> None:
        self.told.see_pods(*pods)

    def expected(self) -> Workload:
        assert self.extender.snapshot is not None
        return self.extender.snapshot.forecast.workload

    def looked(self, seconds: float) -> bool:
        """Whether another forecast was made so much later."""
        before = self.extender.snapshot
        self.now += seconds
        self.forecasting.look()
        return self.extender.snapshot is not before


@pytest.fixture
def foreseen() -> Foreseen:
    return Foreseen()


def test_the_first_expectation_is_the_existing_pods(foreseen: Foreseen) -> None:
    assert foreseen.expected().parts == {ONE: pytest.approx(0.5, abs=0.01)}


def test_the_forecast_follows_drift_but_not_at_once(foreseen: Foreseen) -> None:
    foreseen.come(*(asking(f"q{i}", 2) for i in range(40)))
    assert not foreseen.looked(EVERY_S - 1)
    assert foreseen.looked(1)
    assert foreseen.expected().parts[TWO] == pytest.approx(0.5, abs=0.02)
    assert foreseen.forecasting.age_s == 0


def test_not_what_changes_hardly_anything(foreseen: Foreseen) -> None:
    foreseen.come(asking("q", 2))
    assert not foreseen.looked(EVERY_S)
    # Small steps add up.
    foreseen.come(*(asking(f"r{i}", 2) for i in range(2)))
    assert foreseen.looked(EVERY_S)
    assert foreseen.forecasting.age_s == 0
    assert not foreseen.looked(10 * EVERY_S)
    assert foreseen.forecasting.age_s == 10 * EVERY_S


@pytest.mark.parametrize(
    ("words", "counted"),
    [
        pytest.param([asking("p")], 1, id="one that waits"),
        pytest.param([asking("p"), asking("p"), asking("p", on="a"), asking("p", on="a")], 1, id="each once"),
        pytest.param([asking("p", on="a", phase="Succeeded")], 1, id="one that has finished came, too"),
        pytest.param([pod("p", {"cpu": "1"}, on="a")], 0, id="none without GPUs"),
        pytest.param(
            [asking("p", annotations={"gpu.scheduler-ext.io/min-memory": "much"})],
            0,
            id="none that is refused",
        ),
        pytest.param([pod("p", {WHOLE: ["1"]})], 0, id="no unreadable one"),
    ],
)
def test_the_pods_that_count_for_the_forecast(words: list[Json], counted: int) -> None:
    told = Told()
    for word in words:
        told.see_pods(word)
    assert told.inventory.demand.seen == counted


def test_a_list_counts_in_the_order_of_creation() -> None:
    listed, told = Told(), Told()
    old, new = asking("old"), asking("new", 2)
    old["metadata"]["creationTimestamp"] = "2026-11-21T09:10:00Z"
    new["metadata"]["creationTimestamp"] = "2026-11-21T09:30:00Z"
    listed.pods.begin()
    listed.see_pods(new)
    listed.see_pods(old)
    assert listed.inventory.demand.seen == 0
    listed.pods.end()
    told.see_pods(old, new)
    assert listed.inventory.demand.workload() == told.inventory.demand.workload()
    # The next list has nothing new.
    listed.pods.begin()
    listed.see_pods(new)
    listed.pods.end()
    assert listed.inventory.demand.seen == 2
