"""The default MIG policy is the tuned one: where what is tuned and the formula differ, the former decides."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pytest

from scheduler_ext.core.forecast.mig_tuning import rounded_parts, tuned_worth
from scheduler_ext.core.forecast.mig_value import MigPlacements, MigWorth, least_cost, mig_worth
from scheduler_ext.sim.mig.geometry import read_geometry
from scheduler_ext.sim.mig.mig_policy import MigPolicy, Placement
from scheduler_ext.sim.mig.policies import policy_factory

A30 = read_geometry("A30-24GB")
ONE_UNIT = next(index for index, profile in enumerate(A30.profiles) if profile.name == "1g.6gb")
# Of many small pods and a few large ones the formula and what is tuned differ.
MIX = {"1g.6gb": 0.8, "4g.24gb": 0.2}
OTHER_MIX = {"1g.6gb": 0.5, "4g.24gb": 0.5}
PAIRS = list(combinations(range(16), 2))


def of(worth: MigWorth) -> MigPlacements:
    return least_cost(A30, worth.cost)


def chosen_by(placements: MigPlacements, masks: tuple[int, int]) -> Placement | None:
    """The cheaper of two GPUs for one unit, the first of equal ones."""
    costs = [float(placements.cost[mask, ONE_UNIT]) for mask in masks]
    gpu = int(costs[1] < costs[0])
    return None if costs[gpu] == np.inf else (gpu, int(placements.start[masks[gpu], ONE_UNIT]))


def choices(policy: MigPolicy) -> list[Placement | None]:
    return [policy.choose(np.array(masks), ONE_UNIT) for masks in PAIRS]


@pytest.mark.parametrize(
    ("told", "then"),
    [
        pytest.param(MIX, None, id="to the mix it begins with"),
        pytest.param(OTHER_MIX, MIX, id="to the one it is told later"),
    ],
)
def test_the_default_is_tuned(told: Mapping[str, float], then: Mapping[str, float] | None) -> None:
    tuned, formula = of(tuned_worth(A30, rounded_parts(A30, MIX))), of(mig_worth(A30, MIX))
    by_tuning = [chosen_by(tuned, masks) for masks in PAIRS]
    assert by_tuning != [chosen_by(formula, masks) for masks in PAIRS]
    policy = policy_factory("default")(A30, told)
    if then is not None:
        policy.retarget(then)
    assert choices(policy) == by_tuning
