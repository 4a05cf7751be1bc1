"""The cheapest starts of MIG instances: every start is tried in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.forecast.mig_value import MigWeights, mig_worth
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.gpu.mig_profile import window
from scheduler_ext.sim.mig.mig_policies import least_cost
from tests.core.forecast.test_mig_value import cases, free_starts
from tests.mig_oracle import cost_of


@given(cases(), st.data())
def test_the_tables_agree_with_every_start_tried(
    case: tuple[Geometry, dict[str, float], MigWeights], data: st.DataObject
) -> None:
    geometry, mix, weights = case
    tables = least_cost(geometry, mig_worth(geometry, mix, weights).cost)
    mask = data.draw(st.integers(0, (1 << geometry.grid) - 1))
    best: dict[int, tuple[float, int]] = {}
    for index, start in free_starts(geometry, mask):
        after = mask | window(geometry.profiles[index], start)
        lost = cost_of(geometry, mix, mask, after, weights)
        if index not in best or lost < best[index][0] - 1e-8:
            best[index] = (lost, start)
    for index in range(len(geometry.profiles)):
        assert tables.cost[mask, index] == pytest.approx(best.get(index, (np.inf, -1))[0], abs=1e-8)
        assert tables.start[mask, index] == best.get(index, (np.inf, -1))[1]
