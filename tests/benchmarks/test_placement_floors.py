"""Whether a floor of placement holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from benchmarks.placement.floor_list import FLOORS, GROUPS, Condition, Floor
from benchmarks.placement.floor_runs import Cell, Plan
from benchmarks.placement.inputs import made_up
from benchmarks.placement.verdicts import verdict_of
from scheduler_ext.sim.simulation_report import Run

INFLATION, RANDOM_TIES = Condition(), Condition(ties="random")
FLOOR = Floor(group="inflation", what="a floor", condition=INFLATION, at="100")


def run_of(cell: Cell, percent: float) -> Run:
    churned, sliced = cell.condition.protocol == "churn", cell.condition.protocol == "mig"
    return Run(
        trace=cell.trace,
        policy=cell.policy,
        seed=cell.seed,
        allocation_percent=None if churned or sliced else {"100": percent, "130": 0.0},
        mean_allocation_percent=percent if churned else 1.0 if sliced else None,
        slice_acceptance_percent=percent if sliced else None,
        arrived_milli=0,
        allocated_milli=0,
        rejected_milli=0,
        decisions_per_second=1.0,
        p99_ms=1.0,
    )


def runs_of(
    figures: Mapping[tuple[str, str], tuple[float, ...]], condition: Condition = INFLATION
) -> dict[Cell, Run]:
    """Per cents by trace and policy, of the seeds 1, 2 and so on."""
    return {
        cell: run_of(cell, percent)
        for (trace, policy), percents in figures.items()
        for seed, percent in enumerate(percents, start=1)
        for cell in [Cell(condition, trace, policy, seed)]
    }


TWO_TRACES = runs_of(
    {
        ("a", "default"): (96.0, 97.0),
        ("a", "fgd"): (95.0, 95.0),
        ("a", "random"): (80.0, 80.0),
        ("b", "default"): (90.0, 91.0),
        ("b", "fgd"): (90.2, 91.0),
        ("b", "random"): (90.0, 91.6),
    }
)


@pytest.mark.parametrize(
    ("floor", "found"),
    [
        pytest.param(
            replace(FLOOR, of_traces="mean", wanted=0.71),
            ("", "fgd", 93.5, 92.8, 0.7, 0.3, False),
            id="too low",
        ),
        pytest.param(
            replace(FLOOR, of_traces="mean", wanted=0.7),
            ("", "fgd", 93.5, 92.8, 0.7, 0.3, True),
            id="just so",
        ),
        pytest.param(FLOOR, ("b", "fgd", 90.5, 90.6, -0.1, 0.1, False), id="the least, with its trace"),
        pytest.param(
            replace(FLOOR, references=("fgd", "random")),
            ("b", "random", 90.5, 90.8, -0.3, 0.3, False),
            id="the best reference of each trace",
        ),
        pytest.param(
            replace(FLOOR, figure=90.4), ("b", "", 90.5, 90.4, 0.1, 0.5, True), id="a figure for a reference"
        ),
    ],
)
def test_a_verdict(floor: Floor, found: tuple[str, str, float, float, float, float, bool]) -> None:
    verdict = verdict_of(floor, ["a", "b"], (1, 2), TWO_TRACES)
    assert list(verdict.by_trace) == ["a", "b"]
    if "random" not in floor.references and floor.figure is None:
        assert verdict.by_trace == pytest.approx({"a": 1.5, "b": -0.1})
    figures = (verdict.ours, verdict.reference, verdict.margin, verdict.error)
    assert (verdict.trace, verdict.policy, verdict.holds) == (*found[:2], found[-1])
    assert figures == pytest.approx(found[2:-1])
    assert verdict.seeds == 2


def test_one_seed_has_no_error() -> None:
    verdict = verdict_of(FLOOR, ["a"], (2,), TWO_TRACES)
    assert verdict.error is None
    assert verdict.cells()[5:] == ("+2.00", "", "+0.0", "holds")
    assert verdict.as_json()["standardError"] is None


def test_a_reference_may_be_the_same_policy_elsewhere() -> None:
    runs = runs_of({("a", "default"): (95.0,)}, RANDOM_TIES) | runs_of({("a", "default"): (95.2,)}, INFLATION)
    floor = replace(FLOOR, condition=RANDOM_TIES, against=INFLATION, references=("default",), wanted=-0.1)
    verdict = verdict_of(floor, ["a"], (1,), runs)
    assert verdict.margin == pytest.approx(-0.2)
    assert not verdict.holds


@pytest.mark.parametrize("protocol", ["churn", "mig"])
def test_other_protocols_have_one_figure(protocol: str) -> None:
    condition = Condition(protocol=protocol)
    runs = runs_of({("a", "default"): (95.0,), ("a", "fgd"): (94.0,)}, condition)
    verdict = verdict_of(replace(FLOOR, condition=condition, at=None), ["a"], (1,), runs)
    assert (verdict.ours, verdict.reference) == (95.0, 94.0)


def test_a_run_that_several_floors_need_is_made_once() -> None:
    plan = Plan(made_up(clusters=2, nodes=3), seeds=(1, 2), churn_seeds=(1,), mig_arrivals=10)
    cells = plan.cells(FLOORS)
    groups = [plan.cells(each for each in FLOORS if each.group == group) for group in GROUPS]
    assert len(set(cells)) == len(cells) < sum(map(len, groups))
    assert set(cells) == set().union(*groups)
    # Two policies on two traces with two seeds; four kinds of churn with one seed; eight policies on ten
    # families, and two in churn.
    count = dict(zip(GROUPS, map(len, groups), strict=True))
    assert (count["inflation"], count["churn"], count["families"], count["mig"]) == (8, 12, 200, 40)
