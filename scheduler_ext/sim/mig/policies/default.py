"""The product's own choice of a MIG placement (core/forecast/mig_tuning.py)."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_ext.core.forecast.mig_tuning import UNTUNED
from scheduler_ext.core.forecast.mig_value import MigPlacements, least_cost
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.sim.mig.mig_policy import CheapestGpu, MigPolicy


def policy(geometry: Geometry, mix: Mapping[str, float]) -> MigPolicy:
    """The least that pods of ``mix`` miss."""
    tables = UNTUNED

    def placements(mix: Mapping[str, float]) -> MigPlacements:
        nonlocal tables
        tables = tables.tuned_to({geometry: mix})
        return least_cost(geometry, tables.worth(geometry, mix).cost)

    return CheapestGpu(placements, mix)
