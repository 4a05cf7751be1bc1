"""The product's own choice of a MIG placement (core/mig_value.py)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from scheduler_ext.core.mig_geometry import Geometry
from scheduler_ext.core.mig_value import mig_placements
from scheduler_ext.sim.mig.policy import CheapestGpu, MigPolicy


def policy(geometry: Geometry, mix: Mapping[str, float]) -> MigPolicy:
    """The least that pods of ``mix`` miss."""
    return CheapestGpu(partial(mig_placements, geometry), mix)
