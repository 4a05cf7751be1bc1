"""The jobs that arrive: their part of the demand, their sizes, and what they state."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.features.gangs.simulation.jobs import CLASSES, TIMED, TOGETHER, GangSettings, Job, Jobs
from scheduler_ext.sim.trace_workload import PodKind, TracePod
from tests.sim.small import share, whole

PODS = (
    TracePod("half", share(500)),
    TracePod("one", whole(1)),
    TracePod("four", whole(4)),
    TracePod("cpu", PodKind(1000, 1000)),
)


def drawn(jobs: Jobs, count: int = 5000) -> list[Job]:
    random = np.random.default_rng(1)
    return [jobs.draw(0.0, random) for _ in range(count)]


def test_gangs_request_their_part_of_the_demand() -> None:
    percent = 40.0
    jobs = Jobs(PODS, GangSettings(percent=percent))
    found = drawn(jobs)
    demand = sum(job.demand_milli for job in found)
    gangs = [job for job in found if job.is_gang]
    assert sum(job.demand_milli for job in gangs) / demand == pytest.approx(percent / 100, abs=0.05)
    assert demand / len(found) == pytest.approx(jobs.mean_milli, rel=0.1)
    assert {len(job.pods) for job in gangs} == set(range(2, 17))
    # Small gangs come more often; each size requests about as much as any other.
    by_half = [
        sum(job.demand_milli for job in gangs if len(job.pods) in sizes)
        for sizes in (range(2, 6), range(6, 10))
    ]
    assert by_half[0] == pytest.approx(by_half[1], rel=0.3)
    assert all({pod.kind for pod in job.pods} <= {whole(1), whole(4)} for job in gangs)


def test_the_gangs_of_a_trace_come_whole() -> None:
    pods = (
        TracePod("a-0", whole(1), gang="a"),
        TracePod("alone", share(500)),
        TracePod("a-1", whole(2), gang="a"),
    )
    jobs = Jobs(pods, GangSettings(percent=None))
    assert {tuple(pod.pod.name for pod in job.pods) for job in drawn(jobs, 50)} == {
        ("a-0", "a-1"),
        ("alone",),
    }
    assert jobs.mean_milli == 1750


@pytest.mark.parametrize(
    ("pods", "percent", "told"),
    [
        pytest.param(PODS, None, "gangs of the trace: it has none", id="a trace without gangs"),
        pytest.param(
            (TracePod("a", share(500), gang="a"), TracePod("b", share(500), gang="b")),
            None,
            "gangs of the trace: it has none",
            id="gangs of one pod",
        ),
        pytest.param(PODS[:1], 50.0, "no pod requests whole GPUs", id="a trace of shares"),
    ],
)
def test_no_gangs(pods: tuple[TracePod, ...], percent: float | None, told: str) -> None:
    with pytest.raises(SimulationError, match=told):
        Jobs(pods, GangSettings(percent=percent))


def test_a_stated_duration_is_one_to_three_times_the_real_one() -> None:
    settings = GangSettings(percent=30.0, start=TIMED)
    found = drawn(Jobs(PODS, settings), 1000)
    factors = [(job.stated or 0) / job.runs for job in found]
    assert 1 <= min(factors) < 1.1
    assert 2.9 < max(factors) <= 3
    plain = drawn(Jobs(PODS, GangSettings(percent=30.0, start=TOGETHER)), 1000)
    assert {job.stated for job in plain} == {None}
    assert [job.runs for job in plain] == [job.runs for job in found]


@pytest.mark.parametrize(
    ("size", "name"),
    [(1, "single"), (2, "2"), (3, "3-4"), (4, "3-4"), (8, "5-8"), (9, "9-16"), (17, "17 and more")],
)
def test_classes_of_sizes(size: int, name: str) -> None:
    assert Job(1, (PODS[1],) * size, 0.0, 1.0).size_class == name
    assert name in CLASSES
