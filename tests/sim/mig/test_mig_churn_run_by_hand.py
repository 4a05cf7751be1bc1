"""MIG churn on one GPU, worked out by hand: the counts, and their beginning."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from scheduler_ext.sim.mig import mig_churn_run
from scheduler_ext.sim.mig.mig_churn_run import MigChurn, run_mig_churn
from scheduler_ext.sim.mig.mig_inputs import read_geometry
from scheduler_ext.sim.simulation_report import Run

A30 = read_geometry("A30-24GB")
ONE, TWO, FOUR = (
    next(index for index, profile in enumerate(A30.profiles) if profile.name == name)
    for name in ("1g.6gb", "2g.12gb", "4g.24gb")
)
# A profile, its arrival, its departure.
COMING = (
    (FOUR, 0.0, 3.0),
    (ONE, 1.0, 9.0),  # Rejected: all four units are held.
    (TWO, 2.0, 9.0),  # Rejected as well.
    (ONE, 4.0, 7.0),
    (FOUR, 5.0, 9.0),  # Rejected: one unit is held.
    (ONE, 6.0, 9.0),
    (TWO, 8.0, 9.0),
)


def run_after(warm_up: int) -> Run:
    """The run without its first so many pods."""
    profile, arrives, leaves = zip(*COMING, strict=True)
    requests = mig_churn_run._Requests(np.array(profile), np.array(arrives), np.array(leaves), warm_up)
    experiment = MigChurn(geometry=A30, mix={}, trace="by hand", gpus=1)
    with patch.object(mig_churn_run, "_requests", lambda *_: requests):
        return run_mig_churn(experiment, "first-fit", 1)


@pytest.mark.parametrize(
    ("warm_up", "asked", "given", "held"),
    [
        pytest.param(0, 15, 8, 17 / 8, id="from the first: four held for 3, one for 2, two for 1, one for 1"),
        pytest.param(3, 8, 4, 5 / 4, id="from the fourth, at 4: one held for 2, two for 1, one for 1"),
        pytest.param(4, 7, 3, 4 / 3, id="from the fifth, at 5: what came before is held and does not count"),
    ],
)
def test_pods_of_the_warm_up_are_held_and_do_not_count(
    warm_up: int, asked: int, given: int, held: float
) -> None:
    run = run_after(warm_up)
    assert (run.arrived_milli, run.allocated_milli) == (1000 * asked, 1000 * given)
    assert sum(run.rejected_by_class.values()) == 1000 * (asked - given)
    assert run.slice_acceptance_percent == pytest.approx(100 * given / asked)
    assert run.mean_allocation_percent == pytest.approx(100 * held / 4)
