"""Whole runs of churn with gangs: what holds at every moment, and in every report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from msgspec import structs

from scheduler_ext.features.gangs.planning.gang_fit import GangFit, fit
from scheduler_ext.features.gangs.simulation.floor import Floor
from scheduler_ext.features.gangs.simulation.gang_churn import _GangChurn, run_gang_churn
from scheduler_ext.features.gangs.simulation.job_account import JobAccount
from scheduler_ext.features.gangs.simulation.jobs import ALONE, STARTS, TIMED, TOGETHER, GangSettings, Job
from scheduler_ext.features.gangs.simulation.planned_starts import PlannedStarts
from scheduler_ext.features.gangs.simulation.turn import Turn
from scheduler_ext.sim.scheduler import Settings
from scheduler_ext.sim.simulation_report import Run
from scheduler_ext.sim.trace_workload import TracePod
from scheduler_ext.sim.world import Cluster, TraceNode, World
from tests.sim.small import SMALL, pods_of, share, whole, without_pace
from tests.sim.watched import watched

pytestmark = pytest.mark.process

NODES = tuple(
    TraceNode(f"n{number}", 64_000, 64_000, 4, "A100" if number < 4 else "T4") for number in range(6)
)
GANGS = replace(
    SMALL,
    nodes=NODES,
    pods=pods_of(share(500), whole(1), whole(1), whole(1, models=("T4",)), whole(2)),
    policy="best-fit",
    seed=43,
    load=0.9,
    settings=Settings(ties="first"),
    priorities="none",
    warm_up=1.0,
    measured=4.0,
)


def run_of(start: str, percent: float | None = 60.0, patience: float = 0.5, **changes: Any) -> Run:
    gangs = GangSettings(percent=percent, start=start, patience=patience)
    return run_gang_churn(replace(GANGS, **changes), gangs).run


def comparable(run: Run) -> Run:
    # The value is a sum of many small changes.
    value = round(run.allocated_value_per_hour or 0.0, 6)
    return structs.replace(without_pace(run), allocated_value_per_hour=value)


@contextmanager
def looked_at() -> Iterator[list[PlannedStarts]]:
    """After each turn of the planner, no gang is placed in part, and no job waits that could start where no
    place is kept."""
    looks: list[PlannedStarts] = []

    def checked(turn: Turn, planned: PlannedStarts) -> Turn:
        looks.append(planned)
        assert planned._floor.partial() == []
        assert planned._floor.partial_milli == 0
        if not planned._reservations:
            for job in planned._waiting:
                mark = planned._places.mark()
                assert not isinstance(fit(job.gang, planned._places, {}), GangFit)
                planned._places.rollback(mark)
        return turn

    class Looked(PlannedStarts):
        def arrive(self, job: Job, now: float) -> Turn:
            return checked(super().arrive(job, now), self)

        def retry(self, now: float) -> Turn:
            return checked(super().retry(now), self)

    with patch("scheduler_ext.features.gangs.simulation.gang_churn.PlannedStarts", Looked):
        yield looks


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("priorities", ["none", "drawn"])
def test_every_job_is_accounted_for_and_no_gpu_is_given_twice(start: str, priorities: str) -> None:
    # Each place in the world is checked.
    with watched(), looked_at() as looks:
        run = run_of(start, priorities=priorities)
    assert bool(looks) == (start != ALONE)
    assert run.start == start
    assert run.waiting_milli is not None
    assert run.arrived_milli == run.allocated_milli + run.rejected_milli + run.waiting_milli
    assert run.mean_allocation_percent is not None
    assert run.useful_allocation_percent is not None
    assert run.partial_gangs_percent is not None
    assert run.useful_allocation_percent + run.partial_gangs_percent == pytest.approx(
        run.mean_allocation_percent
    )
    assert (run.partial_gangs_percent > 0) == (start == ALONE)
    assert (run.evicted_milli is None) == (priorities == "none")
    assert run.jobs is not None
    assert run.median_wait is not None
    assert run.p95_wait is not None
    assert run.jobs.keys() == run.median_wait.keys() == run.p95_wait.keys()
    assert all(run.median_wait[name] <= run.p95_wait[name] <= (run.longest_wait or 0) for name in run.jobs)


def test_the_same_jobs_arrive_whatever_the_start_and_the_policy() -> None:
    runs = [
        *(run_of(start, measured=1.0) for start in STARTS),
        run_of(TOGETHER, measured=1.0, policy="first-fit"),
    ]
    assert len({run.arrived_milli for run in runs}) == 1
    assert all(run.jobs == runs[0].jobs for run in runs)


@pytest.mark.parametrize("start", [TOGETHER, TIMED])
def test_an_arriving_job_is_decided_as_in_a_step_for_all(start: str) -> None:
    class Whole(PlannedStarts):
        def arrive(self, job: Job, now: float) -> Turn:
            self._waiting[job] = None
            return self.retry(now)

    run = run_of(start, measured=2.5)
    with patch("scheduler_ext.features.gangs.simulation.gang_churn.PlannedStarts", Whole):
        assert comparable(run_of(start, measured=2.5)) == comparable(run)


def test_a_job_that_never_fits_is_rejected() -> None:
    nodes = (TraceNode("n", 64_000, 64_000, 4, "A100"),)
    pods = pods_of(whole(1, 1000), whole(1, models=("H100",)))
    for start in STARTS:
        run = run_of(start, 80.0, nodes=nodes, pods=pods, measured=30.0)
        # Gangs of 5 pods and more, and pods of a model that no node has.
        assert set(run.jobs or {}) == {"single", "2", "3-4"}
        assert set(run.rejected_by_class) == {"1-gpu", "1-gpu-constrained"}


@pytest.mark.parametrize("start", STARTS)
def test_a_job_that_was_evicted_runs_its_whole_time_again(start: str) -> None:
    finish = _GangChurn._finish
    stale = 0

    def watched_finish(churn: _GangChurn, now: float) -> None:
        nonlocal stale
        job = churn._ends[0][2]
        runs_on = churn._floor.has_started(job) and churn._ends_at[job] != now
        stale += runs_on
        before = churn._floor.has_started(job), churn._ends_at.get(job)
        finish(churn, now)
        if runs_on:
            assert before == (churn._floor.has_started(job), churn._ends_at.get(job))

    with patch.object(_GangChurn, "_finish", watched_finish):
        run = run_of(start, priorities="drawn", measured=5.0)
    assert (run.evicted_milli or 0) > 0
    assert stale > 0


def test_a_wait_is_that_for_the_first_start() -> None:
    world = World(Cluster.of(NODES))
    account = JobAccount(world, Floor(world), begins=1.0, ends=9.0)
    pod = TracePod("p", whole(1))
    early, evicted, waiting = (Job(number, (pod,), float(number), 1.0) for number in (0, 2, 3))
    for job in (early, evicted, waiting):
        account.arrived(job)
    account.started([early, evicted], 4.0)
    account.evicted([evicted], 5.0)
    account.started([evicted], 8.0)
    measured = account.measured()
    # The first one came before the measured time; the last one waits still.
    assert measured["jobs"] == {"single": 2}
    assert measured["median_wait"] == {"single": (2.0 + 6.0) / 2}
    assert measured["longest_wait"] == 6.0
    assert account.evicted_milli == 1000
