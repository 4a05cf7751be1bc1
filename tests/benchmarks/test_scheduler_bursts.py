"""The report of bursts: medians, ratios within a round, and the bounds of the planner."""

from __future__ import annotations

import pytest

from benchmarks.scheduler.bursts.burst import Burst
from benchmarks.scheduler.bursts.table import bound_lines, rows, table


def burst(contender: str, seconds: float, number: int = 0, *, nodes: int = 5000, bound: int = 1000) -> Burst:
    nominations = {"bound": 900.0 if contender == "planned" else 0.0} if contender != "none" else {}
    return Burst(contender, nodes, number, 1000, bound, seconds, 2.0, 0.5, 3, nominations)


def test_ratios_are_taken_within_a_round() -> None:
    # The machine was half as fast in the second round.
    bursts = [burst("ours", 20.0), burst("planned", 8.0), burst("ours", 40.0, 1), burst("planned", 16.0, 1)]
    _, planned = rows(bursts)
    assert planned["podsPerSecond"] == {"median": 93.75, "min": 62.5, "max": 125.0}
    assert planned["to ours"] == {"median": 2.5, "min": 2.5, "max": 2.5}
    assert planned["to none"] is None
    assert planned["nominations"] == {"bound": 1800.0}
    assert (planned["retries"], planned["unbound"]) == (6, 0)


def test_a_burst_that_was_not_bound_has_no_rate() -> None:
    (row,) = rows([burst("planned", 8.0, bound=999)])
    assert row["podsPerSecond"] is None
    assert row["unbound"] == 1
    assert "-" in table([row])


@pytest.mark.parametrize(
    ("nodes", "seconds", "line"),
    [
        pytest.param(5000, 9.0, "5000 nodes: pods/s of planned / ours >= 2: 2.22 holds", id="twice ours"),
        pytest.param(5000, 11.0, "5000 nodes: pods/s of planned / ours >= 2: 1.82 MISSED", id="not twice"),
        pytest.param(100, 21.0, "100 nodes: pods/s of planned / ours >= 1: 0.95 MISSED", id="small, slower"),
        pytest.param(1000, 9.0, None, id="no bound at this size"),
    ],
)
def test_bounds(nodes: int, seconds: float, line: str | None) -> None:
    bursts = [burst("ours", 20.0, nodes=nodes), burst("planned", seconds, nodes=nodes)]
    assert bound_lines(rows(bursts)) == ([] if line is None else [line])
