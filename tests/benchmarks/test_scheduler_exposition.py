"""Reading kube-scheduler's metrics: sums, differences between two readings, quantiles."""

from __future__ import annotations

import random

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from benchmarks.scheduler.exposition import Exposition, merged

DURATION = "scheduler_scheduling_algorithm_duration_seconds"
ATTEMPTS = "scheduler_schedule_attempts_total"
# As kube-scheduler 1.36 prints them.
TEXT = f"""\
# HELP {ATTEMPTS} [STABLE] Number of attempts to schedule pods, by the result.
# TYPE {ATTEMPTS} counter
{ATTEMPTS}{{profile="gpu-scheduler",result="scheduled"}} 40
{ATTEMPTS}{{profile="other",result="scheduled"}} 2
{ATTEMPTS}{{profile="gpu-scheduler",result="unschedulable"}} 3
# HELP {DURATION} [ALPHA] Scheduling algorithm latency in seconds
# TYPE {DURATION} histogram
{DURATION}_bucket{{le="0.001"}} 0
{DURATION}_bucket{{le="0.002"}} 10
{DURATION}_bucket{{le="0.004"}} 30
{DURATION}_bucket{{le="+Inf"}} 40
{DURATION}_sum 0.12
{DURATION}_count 40
"""


def test_series_are_added_up_over_the_labels_that_are_not_named() -> None:
    read = Exposition(TEXT)
    assert read.total(ATTEMPTS) == 45
    assert read.total(ATTEMPTS, result="scheduled") == 42
    assert read.total(ATTEMPTS, result="scheduled", profile="other") == 2
    assert read.by(ATTEMPTS, "result") == {"scheduled": 42, "unschedulable": 3}


@pytest.mark.parametrize(
    ("quantile", "expected_ms"),
    [
        pytest.param(0.125, 1.5, id="half-way through the first bucket that holds any"),
        pytest.param(0.25, 2.0, id="the bound itself, when exactly that many lie below"),
        pytest.param(0.99, None, id="unknown beyond the last finite bound"),
    ],
)
def test_quantiles_are_linear_within_their_bucket(quantile: float, expected_ms: float | None) -> None:
    assert Exposition(TEXT).histogram(DURATION).quantile_ms(quantile) == pytest.approx(expected_ms)


def test_a_difference_of_readings_is_what_came_between() -> None:
    registry = CollectorRegistry()
    duration = Histogram("seconds", "x", buckets=(0.001, 0.002, 0.004), registry=registry)
    counter = Counter("things", "x", registry=registry)
    rng = random.Random(1)
    for _ in range(50):
        duration.observe(rng.uniform(0, 0.01))
    before = Exposition(generate_latest(registry).decode())
    later = [rng.uniform(0, 0.005) for _ in range(30)]
    for seconds in later:
        duration.observe(seconds)
        counter.inc()
    after = Exposition(generate_latest(registry).decode())
    between = after.histogram("seconds").since(before.histogram("seconds"))
    assert between.count == len(later)
    assert between.mean_ms == pytest.approx(1000 * sum(later) / len(later))
    assert dict(between.buckets)[0.002] == sum(seconds <= 0.002 for seconds in later)
    assert after.total("things_total") - before.total("things_total") == len(later)


def test_merged_histograms_count_every_observation() -> None:
    one, nothing = Exposition(TEXT).histogram(DURATION), Exposition("").histogram(DURATION)
    both = merged([one, one])
    assert (both.count, both.mean_ms) == (80, one.mean_ms)
    assert both.quantile_ms(0.5) == one.quantile_ms(0.5)
    assert merged([nothing, one]) == merged([one, nothing]) == one
    assert merged([]).mean_ms is None
    assert merged([nothing]).quantile_ms(0.5) is None
