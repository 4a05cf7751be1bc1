"""The report of bursts: medians, ratios within a round, and the bounds of the planner; and their cores."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.scheduler.bursts.burst import Burst
from benchmarks.scheduler.bursts.cores import Cores, started_on
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


def test_outcomes_of_nominations_are_shown_for_contenders_that_nominate() -> None:
    text = table(rows([burst("none", 8.0), burst("ours", 20.0), burst("planned", 8.0)]))
    shown = [line for line in text.splitlines() if "nominations" in line]
    assert shown == ["5000 nodes, nominations by planned: 900 bound"]


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


def test_processes_stay_on_the_cores_that_they_were_started_on() -> None:
    every = os.sched_getaffinity(0)
    script = f"import os, time; time.sleep(0.2); print({{*os.sched_getaffinity(0)}} == {{{min(every)}}})"
    with started_on(frozenset({min(every)})):
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert os.sched_getaffinity(0) == every
    assert child.communicate(timeout=60)[0] == "True\n"


def test_apart_are_two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7})
    assert Cores.apart() == Cores(api=frozenset({3}), scheduler=frozenset({5}))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    with pytest.raises(ValueError, match="one core"):
        Cores.apart()
