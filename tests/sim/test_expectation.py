"""The expectation given to a policy, which never contains future pods."""

from __future__ import annotations

import pytest

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.core.request.pod_kinds import UNKNOWN, TaskClass, Workload
from scheduler_ext.sim.trace_workload import Expectation, PodKind, TracePod, task_class, workload_of
from tests.sim.small import share, whole

PODS = [
    TracePod("a", share(500)),
    TracePod("b", share(500)),
    TracePod("c", whole(2)),
    TracePod("d", share(250)),
]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param(PodKind(2000, 7), TaskClass(cpu_milli=2000), id="a pod without GPUs"),
        pytest.param(
            PodKind(2000, 7, 1, 300, ("T4",)),
            TaskClass(cpu_milli=2000, shares_mib=(300,), models=("T4",)),
            id="a share is so many MiB of a GPU of 1000",
        ),
    ],
)
def test_classes(kind: PodKind, expected: TaskClass) -> None:
    assert task_class(kind) == expected


def test_the_trace_is_known_from_the_start() -> None:
    expectation = Expectation("trace", PODS)
    assert expectation.workload == Workload(
        {task_class(share(500)): 0.5, task_class(whole(2)): 0.25, task_class(share(250)): 0.25}
    )
    assert expectation.add(whole(8)) is None


@pytest.mark.parametrize("target", ["online", "first:3"])
def test_nothing_of_the_trace_is_known_beforehand(target: str) -> None:
    assert Expectation(target, PODS).workload == UNKNOWN


def test_the_first_pods_are_counted_once() -> None:
    expectation = Expectation("first:4", [])
    told = [expectation.add(pod.kind) for pod in PODS]
    assert told[:3] == [None] * 3
    assert told[3] == workload_of(PODS)
    assert all(expectation.add(whole(1)) is None for _ in range(100))
    assert expectation.workload == workload_of(PODS)


def test_past_pods_are_evaluated_at_growing_intervals() -> None:
    expectation = Expectation("online", [])
    told = [number for number in range(1, 3001) if expectation.add(share(500)) is not None]
    assert told == [25, 50, 100, 200, 400, 800, 1600, 2400]


def test_drift_is_followed() -> None:
    expectation = Expectation("online", [])
    for _ in range(4000):
        expectation.add(share(500))
    for _ in range(8000):
        expectation.add(whole(2))
    parts = expectation.workload.parts
    assert parts[task_class(whole(2))] > 0.9
    assert 0 < parts[task_class(share(500))] < 0.1


@pytest.mark.parametrize(
    "target",
    ["", "first", "first:", "first:0", "first:-1", "first:1.5", "Trace", "future", "first:999999999999"],
)
def test_an_unknown_target_is_reported(target: str) -> None:
    with pytest.raises(SimulationError, match="write trace, online, or first:N with N of 1 to 999999999"):
        Expectation(target, PODS)
