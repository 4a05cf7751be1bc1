"""MIG churn on one or two GPUs, worked out by hand: the counts, their beginning, and a sample of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import pytest

from scheduler_ext.sim.mig import mig_churn_run
from scheduler_ext.sim.mig.mig_churn_run import MigChurn, run_mig_churn
from scheduler_ext.sim.mig.mig_inputs import read_geometry
from scheduler_ext.sim.sampling import Sampling
from scheduler_ext.sim.simulation_report import Run

A30 = read_geometry("A30-24GB")
ONE, TWO, FOUR = (
    next(index for index, profile in enumerate(A30.profiles) if profile.name == name)
    for name in ("1g.6gb", "2g.12gb", "4g.24gb")
)
# A profile, its arrival, its departure.
Coming = Sequence[tuple[int, float, float]]
COMING: Coming = (
    (FOUR, 0.0, 3.0),
    (ONE, 1.0, 9.0),  # Rejected: all four units are held.
    (TWO, 2.0, 9.0),  # Rejected as well.
    (ONE, 4.0, 7.0),
    (FOUR, 5.0, 9.0),  # Rejected: one unit is held.
    (ONE, 6.0, 9.0),
    (TWO, 8.0, 9.0),
)


def run_of(coming: Coming, warm_up: int = 0, gpus: int = 1, sampled_percent: int = 100) -> Run:
    """The run of first fit, on nodes of one GPU, of which one suffices for a sample."""
    profile, arrives, leaves = map(np.array, zip(*coming, strict=True))
    requests = mig_churn_run._Requests(profile, arrives, leaves - arrives, warm_up)
    experiment = MigChurn(
        geometry=A30,
        mix={},
        trace="by hand",
        gpus=gpus,
        gpus_per_node=1,
        sampled_percent=sampled_percent,
    )
    with patch.object(mig_churn_run, "_requests", lambda *_: requests), patch.object(Sampling, "least", 1):
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
    run = run_of(COMING, warm_up)
    assert (run.arrived_milli, run.allocated_milli) == (1000 * asked, 1000 * given)
    assert sum(run.rejected_by_class.values()) == 1000 * (asked - given)
    assert run.slice_acceptance_percent == pytest.approx(100 * given / asked)
    assert run.mean_allocation_percent == pytest.approx(100 * held / 4)


# The first GPU holds an instance at 1 and another at 2, so that two units are free, not beside each other.
APART: Coming = (
    (ONE, 0.0, 2.5),
    (FOUR, 1.0, 2.5),
    (ONE, 2.0, 99.0),
    (ONE, 2.1, 99.0),
    # The second GPU holds this one at 0, and two units beside each other are free there.
    (ONE, 3.0, 99.0),
)


@pytest.mark.parametrize(
    ("more", "accepted", "refusals", "most"),
    [
        pytest.param([TWO], True, 1, 2, id="a profile for which the units of the first are apart"),
        pytest.param([ONE], True, 0, 1, id="one that the first takes"),
        pytest.param([FOUR], False, 0, 1, id="one for which no GPU has enough units"),
        pytest.param([ONE, ONE, TWO], True, 0, 1, id="one for which the first has not enough units"),
    ],
)
def test_of_a_sample_by_free_units_the_next_may_have_them_beside_each_other(
    more: list[int], accepted: bool, refusals: int, most: int
) -> None:
    coming = (*APART, *((profile, 4.0 + number, 99.0) for number, profile in enumerate(more)))
    run = run_of(coming, gpus=2, sampled_percent=1)
    assert (run.rejected_milli == 0, run.waiting_milli) == (accepted, 0)
    assert (run.false_refusals, run.most_tries) == (refusals, most)
    assert run.tries_per_pod == pytest.approx(1 + refusals / len(coming))


def test_whole_nodes_are_those_without_instances() -> None:
    # Of two, one for a time of 1, and then none; at 2.5 the second is empty for 0.5, and then none for 1.
    assert run_of((*APART, (ONE, 4.0, 99.0)), gpus=2, sampled_percent=1).whole_nodes_free == pytest.approx(
        (1 + 0.5) / 4
    )
