"""The MIG placement of the product: the least loss of future demand (core/forecast/mig_value.py)."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_ext.core.forecast.mig_value import mig_worth
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.sim.mig.mig_placements import least_cost
from scheduler_ext.sim.mig.mig_policy import CheapestGpu, MigPolicy


def policy(geometry: Geometry, mix: Mapping[str, float]) -> MigPolicy:
    """The placement that costs the pods of ``mix`` least."""
    return CheapestGpu(lambda mix: least_cost(geometry, mig_worth(geometry, mix).cost), mix)
