"""Observed pods, and the forecast from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.cache.observed_demand import HALF_LIFE_PODS, MAX_CLASSES, UNKNOWN_PODS, ObservedDemand
from scheduler_ext.core.request.pod_kinds import UNKNOWN, RecentWorkload, TaskClass, Workload

ONE, TWO = TaskClass(gpus=1), TaskClass(gpus=2)


def part(arrivals: ObservedDemand, task: TaskClass) -> float:
    return arrivals.workload().parts.get(task, 0.0)


def test_without_pods_nothing_is_known() -> None:
    assert ObservedDemand().workload() == UNKNOWN


def test_each_counts_beside_those_that_may_ask_anything() -> None:
    arrivals = ObservedDemand()
    for _ in range(UNKNOWN_PODS):
        arrivals.came(ONE, None)
    assert part(arrivals, ONE) == pytest.approx(0.5, abs=0.01)
    assert arrivals.seen == UNKNOWN_PODS


def test_drift_is_followed() -> None:
    arrivals = ObservedDemand()
    for task in (ONE, TWO):
        for _ in range(HALF_LIFE_PODS):
            arrivals.came(task, None)
    # Half of the first ones remains, and slightly less of the unknown ones.
    assert part(arrivals, TWO) == pytest.approx(2 / 3, abs=0.01)


def test_a_list_is_counted_in_the_order_of_creation() -> None:
    listed, told = ObservedDemand(), ObservedDemand()
    listed.hold()
    for task, created_at in ((TWO, 7.0), (ONE, 5.0), (TWO, None), (ONE, 6.0)):
        listed.came(task, created_at)
    assert listed.seen == 0
    # A list that has to begin again.
    listed.hold()
    listed.release()
    for task in (ONE, ONE, TWO, TWO):
        told.came(task, None)
    assert listed.workload() == told.workload()
    listed.came(ONE, None)
    assert listed.seen == 5


class TestTooManyKinds:
    def test_kept_entries_are_bounded_and_frequent_ones_stay(self) -> None:
        arrivals = ObservedDemand()
        for number in range(10 * MAX_CLASSES):
            arrivals.came(TaskClass(shares_mib=(number + 1,)), None)
            if number % 10 == 0:
                arrivals.came(ONE, None)
        workload = arrivals.workload()
        assert len(workload.parts) <= 1.25 * MAX_CLASSES
        # One in eleven, although each of the others is one of ten thousand.
        assert workload.parts[ONE] == pytest.approx(1 / 11, rel=0.05)

    def test_a_forgotten_pod_may_have_had_any_request(self) -> None:
        seen = RecentWorkload(float("inf"), 0.0, 4)
        for number in reversed(range(6)):
            for _ in range(number + 1):
                seen.add(TaskClass(gpus=number + 1))
        workload = seen.workload()
        assert set(workload.parts) == {TaskClass(gpus=gpus) for gpus in (3, 4, 5, 6)}
        assert workload.unknown == pytest.approx(3 / 21)

    def test_without_a_bound_none_is_forgotten(self) -> None:
        seen = RecentWorkload(float("inf"))
        for number in range(2000):
            seen.add(TaskClass(gpus=number))
        assert len(seen.workload().parts) == 2000


workloads = st.builds(
    Workload.of,
    st.dictionaries(st.sampled_from((ONE, TWO, TaskClass(gpus=4))), st.floats(0.01, 10), max_size=3),
    st.floats(0, 10),
)


class TestDistance:
    def test_the_distance_is_the_part_of_the_demand_that_differs(self) -> None:
        assert Workload.of({ONE: 3, TWO: 1}).distance(Workload.of({ONE: 1, TWO: 3})) == pytest.approx(0.5)
        assert Workload.of({ONE: 1}).distance(UNKNOWN) == pytest.approx(1.0)

    @given(workloads, workloads, workloads)
    def test_the_distance_has_the_laws_of_a_distance(
        self, one: Workload, other: Workload, third: Workload
    ) -> None:
        assert one.distance(one) == 0
        assert one.distance(other) == pytest.approx(other.distance(one))
        assert 0 <= one.distance(other) <= 1 + 1e-9
        assert one.distance(third) <= one.distance(other) + other.distance(third) + 1e-9
