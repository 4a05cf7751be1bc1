"""The report of bursts: medians, ratios within a round, and the bounds."""

from __future__ import annotations

import pytest

from benchmarks.scheduler.bursts.burst import Burst
from benchmarks.scheduler.bursts.table import bound_lines, rows, table


def burst(contender: str, seconds: float, number: int = 0, *, nodes: int = 5000, bound: int = 1000) -> Burst:
    return Burst(contender, nodes, number, 1000, bound, seconds, 2.0, 0.5, 3)


def test_ratios_are_taken_within_a_round() -> None:
    # The machine was half as fast in the second round.
    bursts = [
        burst("every-node", 20.0),
        burst("ours", 8.0),
        burst("every-node", 40.0, 1),
        burst("ours", 16.0, 1),
    ]
    _, ours = rows(bursts)
    assert ours["podsPerSecond"] == {"median": 93.75, "min": 62.5, "max": 125.0}
    assert ours["to every-node"] == {"median": 2.5, "min": 2.5, "max": 2.5}
    assert ours["to none"] is None
    assert (ours["retries"], ours["unbound"]) == (6, 0)


def test_a_burst_that_was_not_bound_has_no_rate() -> None:
    (row,) = rows([burst("ours", 8.0, bound=999)])
    assert row["podsPerSecond"] is None
    assert row["unbound"] == 1
    assert "-" in table([row])


@pytest.mark.parametrize(
    ("nodes", "seconds", "line"),
    [
        pytest.param(5000, 9.0, "5000 nodes: pods/s of ours / every-node >= 2: 2.22 holds", id="twice ours"),
        pytest.param(5000, 11.0, "5000 nodes: pods/s of ours / every-node >= 2: 1.82 MISSED", id="not twice"),
        pytest.param(
            100, 21.0, "100 nodes: pods/s of ours / every-node >= 1: 0.95 MISSED", id="small, slower"
        ),
        pytest.param(1000, 9.0, None, id="no bound at this size"),
    ],
)
def test_bounds(nodes: int, seconds: float, line: str | None) -> None:
    bursts = [burst("every-node", 20.0, nodes=nodes), burst("ours", seconds, nodes=nodes)]
    assert bound_lines(rows(bursts)) == ([] if line is None else [line])
