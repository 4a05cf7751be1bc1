"""The weights by the idle part of the cluster. While much is idle, the rest of each GPU should suit the many
pods that will come. In a full cluster few pods come before others leave, and the idle GPUs should be usable
now. Where pods request as much CPU as the nodes have beside their GPUs, the idle GPUs that have CPU are
those of nearly idle nodes, so these should stay whole."""

from collections.abc import Mapping

from scheduler_ext.core.scores.future_demand import (
    Balance,
    Fragmentation,
    NodeScarcity,
    ResidualValue,
    Tightness,
    WholeGpus,
)
from scheduler_ext.core.scores.value import Value

# Weights change in so many steps between these idle parts, found as docs/concepts/placement.md says.
_FEW_IDLE, _MANY_IDLE = 0.1, 0.3
STEPS = 4
# The factors in a full cluster, besides in one that is short of CPU, and in a small one.
_FACTORS = {ResidualValue.name: 0.2, Fragmentation.name: 8.0, Balance.name: 0.35}
_FACTORS_SHORT_OF_CPU = {WholeGpus.name: 30.0, Tightness.name: 6.0, NodeScarcity.name: 8.0}
_FACTORS_SMALL = {Balance.name: 2 / 3, Value.name: 1.4}


def utilization_level(idle_part: float, small_cluster: float) -> int:
    """How full a cluster is of which this part is idle: 0 to STEPS, and 0 if it is small."""
    # Rounded first, so that equal parts that were computed differently are equally full.
    full = (_MANY_IDLE - round(idle_part, 6)) / (_MANY_IDLE - _FEW_IDLE)
    return round(min(max(full, 0.0), 1.0) * (1.0 - small_cluster) * STEPS)


def weights_at(
    weights: Mapping[str, float], level: int, small_cluster: float, cpu_shortage: float
) -> dict[str, float]:
    """The weights in a cluster this full, 0 to STEPS, this small, and this short of CPU, 0 to 1 each."""
    full = level / STEPS
    parts = (full, _FACTORS), (full * cpu_shortage, _FACTORS_SHORT_OF_CPU), (small_cluster, _FACTORS_SMALL)
    changed = dict(weights)
    for part, factors in parts:
        for name in factors.keys() & changed.keys():
            changed[name] *= 1.0 + part * (factors[name] - 1.0)
    return changed
