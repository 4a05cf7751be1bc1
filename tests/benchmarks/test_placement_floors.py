"""The floors of placement: whether one holds, and that all are measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchmarks.placement import floors
from benchmarks.placement.floor_list import FLOORS, GROUPS, Condition, Floor
from benchmarks.placement.floor_runs import Cell, Plan
from benchmarks.placement.floors import main
from benchmarks.placement.inputs import PODS_CSV, made_up
from benchmarks.placement.verdicts import verdict_of
from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.simulation_report import Run

pytestmark = pytest.mark.process

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
            replace(FLOOR, of_traces="mean", wanted=0.6),
            ("", "fgd", 93.5, 92.8, 0.7, 0.3, True),
            id="the mean",
        ),
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
            replace(FLOOR, wanted=-0.1),
            ("b", "fgd", 90.5, 90.6, -0.1, 0.1, True),
            id="a loss that is allowed",
        ),
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
    assert len(set(cells)) == len(cells)
    count = {group: len(plan.cells(each for each in FLOORS if each.group == group)) for group in GROUPS}
    # Two policies on two traces with two seeds; half of that for the tie-breaking reference, which is one of
    # them. Batches are run in both protocols, with and without.
    assert count == {
        "inflation": 8,
        "early": 8,
        "first-300": 8,
        "online": 8,
        "ties": 8,
        "batches": 8,
        "batches-churn": 4,
        "churn": 12,
        # Eight policies on ten families, and two in churn.
        "families": 200,
        "mig": 40,
    }
    assert len(cells) == 8 + 8 + 8 + 8 + 4 + 8 + 4 + 12 + 200 + 40


def command(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["--jobs", "1", *map(str, args)])


def test_every_floor_is_measured_and_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # One mix of MIG is like another, and so is one family.
    measured = tuple(
        floor
        for floor in FLOORS
        if floor.group not in ("mig", "families")
        or floor.what == "small clusters at 100 %"
        or floor.traces == ("uniform",)
    )
    monkeypatch.setattr(floors, "FLOORS", measured)
    result = command(
        "--generate", "3", "--seeds", "1", "--churn-seeds", "1", "--arrivals", "50", "--json", tmp_path / "f"
    )
    rows = json.loads((tmp_path / "f").read_text(encoding="utf-8"))["floors"]
    assert [row["floor"] for row in rows] == [floor.what for floor in measured]
    assert [row["wanted"] for row in rows] == [floor.wanted for floor in measured]
    for row in rows:
        assert row["margin"] == pytest.approx(row["ours"] - row["reference"], abs=2e-4)
        assert row["holds"] == (row["margin"] >= row["wanted"])
    holding = sum(row["holds"] for row in rows)
    # This few pods cannot satisfy all of them.
    assert holding < len(rows)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[-2] == f"{holding} of {len(rows)} floors hold"
    assert [line.split()[-1] for line in lines[1:-2]] == [
        "holds" if row["holds"] else "FAILS" for row in rows
    ]


def test_all_that_hold_are_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    easy = tuple(replace(floor, wanted=-100.0) for floor in FLOORS if floor.traces == ("uniform",))
    monkeypatch.setattr(floors, "FLOORS", easy)
    result = command("--generate", "3", "--seeds", "1", "--arrivals", "50", "--only", "mig")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "2 of 2 floors hold" in result.stdout


def test_a_floor_about_other_traces_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = made_up(nodes=6)["generated"]
    monkeypatch.setattr(floors, "read_folder", lambda folder: {"default": trace})
    result = command("--traces", "anywhere", "--churn-seeds", "1", "--only", "churn")
    assert result.stderr == "not measured: churn where pods want models: no trace gpuspec* or generated*\n"
    assert [line.split("  ")[0] for line in result.stdout.splitlines()[1:3]] == [
        "churn",
        "churn where 33 % of the GPU pods want models",
    ]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        pytest.param(
            ("--only", "mig,fgd"), "fgd: unknown; known are inflation, early, first-300", id="floors"
        ),
        pytest.param(("--only", "mig,"), "has an empty name", id="a comma too much"),
        pytest.param(("--seeds", "x"), "'x' is no seed", id="no seed"),
    ],
)
def test_usage(args: tuple[str, ...], told: str) -> None:
    result = command(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr


def test_a_folder_without_traces(tmp_path: Path) -> None:
    result = command("--traces", tmp_path)
    assert result.exit_code == 1
    assert f"has no {PODS_CSV}*.csv; it has no traces" in result.stderr


def test_a_lost_run_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object, **__: object) -> None:
        raise SimulationError("backend loky: 1 of 3 runs never came back; run it again")

    monkeypatch.setattr(floors, "run_tasks", lost)
    result = command("--only", "mig")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: backend loky: 1 of 3 runs never came back; run it again\n"
