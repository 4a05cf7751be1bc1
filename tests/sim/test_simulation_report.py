"""The reports of runs: every figure in each form, means over seeds."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs

from scheduler_ext.sim.simulation_report import Run, as_csv, report, summary


def run_of(seed: int, rejected: Mapping[str, int], policy: str = "fgd", at_100: float = 90.0) -> Run:
    return Run(
        trace="t",
        policy=policy,
        seed=seed,
        allocation_percent={"100": at_100},
        arrived_milli=9000,
        allocated_milli=9000 - sum(rejected.values()),
        rejected_milli=sum(rejected.values()),
        rejected_by_class=rejected,
        decisions_per_second=10.0,
        p99_ms=1.0,
    )


RUNS = [
    run_of(1, {"share": 500, "8-gpu": 8000}),
    run_of(2, {"share": 1000}, at_100=80.0),
    run_of(1, {"1g.6gb": 1}, policy="random"),
    run_of(2, {}, policy="random"),
]


def rows_of(runs: list[Run]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(as_csv(runs))))


@pytest.mark.parametrize(
    ("column", "values"),
    [
        pytest.param("rejectedMilli.share", ["500", "1000", "0", "0"], id="a class, 0 where a run has none"),
        pytest.param("rejectedMilli.8-gpu", ["8000", "0", "0", "0"], id="a class of one run alone"),
        pytest.param("rejectedMilli.1g.6gb", ["0", "0", "1", "0"], id="a profile, whose name has a dot"),
        pytest.param("allocationPercent100", ["90.0", "80.0", "90.0", "90.0"], id="a load"),
    ],
)
def test_csv_has_a_column_for(column: str, values: list[str]) -> None:
    assert [row[column] for row in rows_of(RUNS)] == values


def test_csv_has_all_that_the_json_has_of_a_run() -> None:
    def flat(name: str, value: Any) -> dict[str, Any]:
        parts = {"allocationPercent": "allocationPercent", "rejectedByClass": "rejectedMilli."}
        return {parts[name] + key: each for key, each in value.items()} if name in parts else {name: value}

    for run, row in zip(report(RUNS, "")["runs"], rows_of(RUNS), strict=True):
        told = {key: each for name, value in run.items() for key, each in flat(name, value).items()}
        assert {
            name: "" if value is None else str(value) for name, value in told.items()
        }.items() <= row.items()


def gang_run(seed: int, jobs: Mapping[str, int], waits: Mapping[str, float]) -> Run:
    return structs.replace(
        run_of(seed, {}), start="alone", jobs=jobs, median_wait=waits, p95_wait=waits, longest_wait=3.0
    )


GANG_RUNS = [
    gang_run(1, {"single": 9, "2": 1}, {"single": 0.5, "2": 2.0}),
    gang_run(2, {"single": 8}, {"single": 1.0}),
]


def test_waits_of_sizes_have_a_column_each() -> None:
    rows = rows_of(GANG_RUNS)
    assert [row["start"] for row in rows] == ["alone", "alone"]
    assert [row["jobs.2"] for row in rows] == ["1", ""]
    assert [row["medianWait.single"] for row in rows] == ["0.5", "1.0"]
    assert [row["p95Wait.2"] for row in rows] == ["2.0", ""]


def test_means_of_waits_are_over_the_seeds_with_such_jobs() -> None:
    (mean,) = summary(GANG_RUNS)
    assert mean["medianWait"] == {"single": 0.75, "2": 2.0}
    assert mean["standardError"]["p95Wait"] == {"single": 0.25, "2": None}
    assert mean["longestWait"] == 3.0


@pytest.mark.parametrize(
    ("values", "error"),
    [
        pytest.param([90.0, 80.0], {"100": 5.0}, id="two seeds: half their distance"),
        pytest.param([1.0, 2.0, 3.0, 4.0], {"100": 0.6455}, id="four seeds: their deviation over two"),
    ],
)
def test_the_standard_error_of_a_mean(values: list[float], error: dict[str, float]) -> None:
    (mean,) = summary([run_of(seed, {}, at_100=value) for seed, value in enumerate(values)])
    found = {name: each for name, each in mean["standardError"].items() if each is not None}
    assert found == {"allocationPercent": error, "rejectedByClass": {}}, "and none of other runs"


def test_means_by_class_are_over_all_seeds() -> None:
    fgd, random = summary(RUNS)
    assert fgd["rejectedByClass"] == {"8-gpu": 4000.0, "share": 750.0}
    assert random["rejectedByClass"] == {"1g.6gb": 0.5}
    assert fgd["allocationPercent"] == {"100": 85.0}
    assert fgd["standardError"]["rejectedByClass"] == {"8-gpu": 4000.0, "share": 250.0}
