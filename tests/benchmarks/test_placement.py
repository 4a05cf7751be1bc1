"""When a result agrees with the published one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.placement.floor_list import Condition
from benchmarks.placement.floor_runs import Cell
from benchmarks.placement.table import rows_of
from scheduler_ext.sim.simulation_report import Run
from tests.benchmarks.test_placement_floors import run_of as floor_run


def run_of(policy: str, at_130: float) -> Run:
    cell = Cell(Condition(), "default", policy, seed=42)
    return replace(floor_run(cell, at_130), allocation_percent={"100": at_130, "130": at_130})


@pytest.mark.parametrize(
    ("policy", "at_130", "agrees"),
    [
        pytest.param("fgd", 95.30, True, id="FGD within 0.15 agrees"),
        pytest.param("fgd", 95.20, False, id="FGD beyond does not"),
        pytest.param("best-fit", 92.70, True, id="another within 0.5 agrees"),
        pytest.param("best-fit", 93.70, False, id="another beyond does not"),
        pytest.param("first-fit", 93.70, None, id="nothing was published of first fit"),
    ],
)
def test_agreement(policy: str, at_130: float, agrees: bool | None) -> None:
    row, mean = rows_of([run_of(policy, at_130)])
    assert row.agrees is agrees
    assert (mean.variant, mean.ours["130"], mean.agrees) == ("mean", at_130, None)


def test_other_ties_are_no_disagreement() -> None:
    row, _ = rows_of([run_of("fgd", 90.0)], as_published=False)
    assert row.agrees is None
    assert row.published["130"] == 95.39
