"""The distribution of the next run time from those of comparable pods."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler_ext.features.gangs.queue.survival import ObservedRun, Survival

DRAWS = 2_000


def ended(*runs_s: float) -> list[ObservedRun]:
    return [ObservedRun(0.0, run_s, True) for run_s in runs_s]


def still(*ages_s: float) -> list[ObservedRun]:
    return [ObservedRun(0.0, age_s, False) for age_s in ages_s]


def drawn(observed: list[ObservedRun], *ages_s: float) -> np.ndarray:
    return Survival(observed).remaining(np.array(ages_s), DRAWS, np.random.default_rng(1))


@pytest.mark.parametrize(
    ("observed", "age_s", "until_s", "part"),
    [
        pytest.param(ended(10, 20, 30), 0, 10, 1 / 4, id="the next run ends in each gap alike"),
        pytest.param(
            ended(10, 20, 30), 15, 30 - 15, 2 / 3, id="a pod of an age is one of those that reach it"
        ),
        pytest.param(
            ended(10) + still(20, 30), 0, 10, 1 / 4, id="pods that still run have reached their age"
        ),
        pytest.param(ended(20) + still(10, 10), 0, 20, 1 / 2, id="they say nothing about later ages"),
        pytest.param(
            [*ended(20), ObservedRun(15, 40, False)], 0, 20, 1 / 3, id="pods count where they were watched"
        ),
        pytest.param(
            [*ended(10), ObservedRun(15, 40, False)], 0, 10, 1 / 2, id="and not at an age before that"
        ),
        pytest.param(ended(10, 20), 30, 1e9, 0.0, id="nor of a pod older than all of them"),
        pytest.param(ended(0, 0, 5), 0, 5, 1 / 2, id="runs of no length were reached by all"),
    ],
)
def test_the_part_that_ends_in_time(
    observed: list[ObservedRun], age_s: float, until_s: float, part: float
) -> None:
    found = drawn(observed, age_s)[:, 0]
    assert np.mean(found <= until_s + 1e-9) == pytest.approx(part, abs=0.025)


def test_within_a_gap_all_times_are_equally_likely() -> None:
    found = drawn(ended(100), 0)[:, 0]
    assert np.mean(found[np.isfinite(found)]) == pytest.approx(50, abs=1.5)


def test_pods_compared_with_the_same_runs_depend_on_each_other() -> None:
    """By A(n), two next values are beyond n known ones with 2/((n + 1)(n + 2)), and not with 1/(n + 1)^2."""
    found = drawn(ended(1, 2), 0, 0)
    assert np.mean(np.isinf(found).all(axis=1)) == pytest.approx(2 / 12, abs=0.015)


def test_intervals_cover_what_they_state() -> None:
    count = 15
    random, inside = np.random.default_rng(count), []
    for _ in range(120):
        *runs_s, next_s = random.lognormal(5, 1.5, count + 1)
        found = Survival(ended(*runs_s)).remaining(np.zeros(1), 100, random)
        low, high = np.quantile(found, (0.1, 0.9), method="inverted_cdf")
        inside.append(low <= next_s <= high)
    assert np.mean(inside) == pytest.approx(0.8, abs=0.08)
