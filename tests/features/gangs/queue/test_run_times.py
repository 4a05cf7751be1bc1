"""Past runs: what they are compared by, and how many are remembered."""

from __future__ import annotations

from scheduler_ext.features.gangs.queue.run_times import ENOUGH, PastRuns, PodRun, RunKind

TRAIN = RunKind("ml", "Job/train-1", "gpu=1")


def past(*runs: tuple[RunKind, float, float], since: float = 0.0, most: int = 100) -> PastRuns:
    found = PastRuns(since, most)
    for kind, started, ended in runs:
        found.ended(PodRun(kind, started, ended))
    return found


def longer(runs: PastRuns, kind: RunKind, age_s: float = 0.0) -> int:
    return runs.distributions([], 1e6).best(kind, age_s).longer_than(age_s)


def test_the_closest_comparison_with_enough_runs_decides() -> None:
    sibling = RunKind("ml", "Job/train-2", "gpu=1")
    elsewhere = RunKind("other", "Job/x", "gpu=1")
    many = [(TRAIN, 0.0, 10.0)] * ENOUGH
    assert longer(past(*many, (sibling, 0.0, 10.0)), TRAIN) == ENOUGH
    few = [(TRAIN, 0.0, 10.0), *[(sibling, 0.0, 10.0)] * (ENOUGH - 1)]
    assert longer(past(*few, (elsewhere, 0.0, 10.0)), TRAIN) == ENOUGH
    assert longer(past(*few[1:], (elsewhere, 0.0, 10.0)), TRAIN) == ENOUGH


def test_other_requests_and_other_kinds_of_workloads_are_no_comparison() -> None:
    larger = RunKind("ml", "Job/train-1", "gpu=8")
    service = RunKind("ml", "Deployment/train-1", "gpu=1")
    assert longer(past((larger, 0.0, 10.0), (service, 0.0, 10.0)), TRAIN) == 0


def test_enough_runs_must_be_longer_than_the_present_age() -> None:
    sibling = RunKind("ml", "Job/train-2", "gpu=1")
    runs = past(*[(TRAIN, 0.0, 10.0)] * ENOUGH, *[(sibling, 0.0, 100.0)] * ENOUGH)
    assert longer(runs, TRAIN, 50.0) == ENOUGH


def test_the_oldest_run_is_forgotten_and_the_past_begins_later() -> None:
    runs = past((TRAIN, 0.0, 10.0), (TRAIN, 5.0, 20.0), (TRAIN, 6.0, 30.0), most=2)
    assert len(runs) == 2
    assert runs.since == 10.0


def test_a_copy_stays_as_it_is() -> None:
    runs = past((TRAIN, 0.0, 10.0))
    copied = runs.copy()
    runs.ended(PodRun(TRAIN, 0.0, 20.0))
    assert len(copied.runs()) == 1


def test_running_pods_count_as_runs_under_way() -> None:
    """Each ends before all others by chance; with 30 that run on, that it does is unlikely."""
    import numpy as np

    running = [PodRun(TRAIN, 0.0)] * 30
    found = past((TRAIN, 0.0, 10.0)).distributions(running, 100.0).best(TRAIN, 0.0)
    remaining = found.remaining(np.zeros(1), 2000, np.random.default_rng(1))
    assert np.mean(np.isfinite(remaining)) < 0.05
