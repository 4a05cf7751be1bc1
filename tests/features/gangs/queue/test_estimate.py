"""Estimates of starts: intervals, and the reasons why a start is unknown."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from scheduler_ext.features.gangs.queue.estimate import NOT_BY_PODS, NOTHING_HELPS, StartEstimate, estimates
from scheduler_ext.features.gangs.queue.room import Arrivals, RunningPod, Waiter
from scheduler_ext.features.gangs.queue.run_times import PastRuns, PodRun, RunKind

JOB = RunKind("ml", "Job/train", "gpu=1")
A = frozenset("a")


def past(*runs_s: float, kind: RunKind = JOB) -> PastRuns:
    found = PastRuns(0.0, 1000)
    for run_s in runs_s:
        found.ended(PodRun(kind, 1000.0, 1000.0 + run_s))
    return found


def holder(age_s: float = 0.0, limit_s: float | None = None, leaving: bool = False) -> RunningPod:
    return RunningPod("a", (1,), JOB, age_s, limit_s, leaving)


def waiter(gpus: int = 1) -> Waiter:
    return Waiter(((gpus,),), A, JOB)


def made(
    holders: Sequence[RunningPod], runs: PastRuns, waiters: Sequence[Waiter] = (waiter(),), free: int = 0
) -> list[StartEstimate]:
    return estimates({"a": (free,)}, holders, waiters, runs.distributions([], 1e6))


HUNDRED = past(*np.linspace(1, 100, 99))


NOW = StartEstimate(0.0, 0.0, 0.0)
BEFORE = StartEstimate(unknown="the run times of pods that start before it are unknown")
NOTHING = StartEstimate(unknown=NOTHING_HELPS)
ONE_UNKNOWN = "the end of the pod in its way is unknown: fewer than 9 pods like it ran longer"
SOME_UNKNOWN = "the ends of 1 of the 2 pods in its way are unknown: fewer than 9 pods like each ran longer"


@pytest.mark.parametrize(
    ("holders", "free", "waiters", "expected"),
    [
        pytest.param([], 1, [waiter()], NOW, id="a pod that fits starts now"),
        pytest.param([holder(leaving=True)], 0, [waiter()], NOW, id="and where another one leaves"),
        pytest.param(
            [holder(limit_s=40.0)],
            0,
            [waiter()],
            StartEstimate(latest_s=40.0, stated=True),
            id="by a stated limit",
        ),
        pytest.param([], 0, [waiter()], NOTHING, id="never, if nothing is in its way"),
        pytest.param(
            [holder()], 0, [waiter()], StartEstimate(unknown=ONE_UNKNOWN), id="one pod is in its way"
        ),
        pytest.param(
            [holder(), holder(limit_s=9.0)],
            0,
            [waiter(2)],
            StartEstimate(unknown=SOME_UNKNOWN),
            id="the ends of some pods in its way are unknown",
        ),
        pytest.param(
            [holder(limit_s=9.0)], 0, [waiter(2)], NOTHING, id="a pod that is too large for the node"
        ),
        pytest.param(
            [], 1, [replace(waiter(), places=("a",)), waiter()], BEFORE, id="a planned pod is in its way"
        ),
        pytest.param(
            [],
            1,
            [replace(waiter(), refused=True)],
            StartEstimate(unknown=NOT_BY_PODS),
            id="what refuses it is no pod with GPUs",
        ),
        pytest.param(
            [],
            2,
            [replace(waiter(), places=("a",)), replace(waiter(), refused=True)],
            BEFORE,
            id="the place of a planned pod is why it is refused",
        ),
        pytest.param([], 1, [waiter(), waiter()], BEFORE, id="a pod before it takes the free node"),
        pytest.param(
            [],
            1,
            [replace(waiter(), asks=((1,), (1,)))],
            NOTHING,
            id="the node takes one of two members",
        ),
    ],
)
def test_without_past_runs(
    holders: list[RunningPod], free: int, waiters: list[Waiter], expected: StartEstimate
) -> None:
    assert made(holders, past(), waiters, free=free)[-1] == expected


def test_a_few_past_runs_are_too_few() -> None:
    (found,) = made([holder()], past(10, 20, 30))
    assert found.unknown is not None
    assert found.latest_s is None
    assert found.earliest_s is not None


def test_a_pod_that_outlasted_all_others_has_no_end() -> None:
    (found,) = made([holder(age_s=200.0)], HUNDRED)
    assert found.latest_s is None


def test_pods_that_come_overtake_a_large_one() -> None:
    holders, waiters = [holder()] * 3, [waiter(4)]
    runs = HUNDRED.distributions([], 1e6)
    small = Arrivals([waiter(1)], 10.0)
    (alone,) = estimates({"a": (1,)}, holders, waiters, runs)
    (overtaken,) = estimates({"a": (1,)}, holders, waiters, runs, small)
    assert alone.median_s is not None
    assert overtaken.median_s is None or overtaken.median_s > 1.2 * alone.median_s


def test_intervals_of_queues_cover_what_they_state() -> None:
    """Queues on a node with four GPUs, of which each future is one possible world: the true start is within
    the interval in about 80 of 100."""
    random, inside = np.random.default_rng(3), []
    for _ in range(80):
        scale = random.lognormal(5, 1)
        runs = past(*random.lognormal(0, 1, 40) * scale)
        true_s = random.lognormal(0, 1, 7) * scale
        (*_, found) = made([holder()] * 4, runs, [waiter()] * 3)
        assert (found.unknown, found.stated) == (None, False)
        ends = sorted(true_s[:4])
        for run_s in true_s[4:6]:
            heapq.heappush(ends, heapq.heappop(ends) + run_s)
        assert found.earliest_s is not None
        assert found.latest_s is not None
        inside.append(found.earliest_s <= ends[0] <= found.latest_s)
    assert np.mean(inside) == pytest.approx(0.8, abs=0.09)
