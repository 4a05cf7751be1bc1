"""When a result agrees with the published one."""

from __future__ import annotations

import pytest

from benchmarks.placement.table import rows_of
from scheduler_ext.sim.simulation_report import Run


def run_of(policy: str, at_130: float) -> Run:
    return Run(
        trace="default",
        policy=policy,
        seed=42,
        allocation_percent={"100": at_130, "130": at_130},
        arrived_milli=0,
        allocated_milli=0,
        rejected_milli=0,
        decisions_per_second=1.0,
        p99_ms=1.0,
    )


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
