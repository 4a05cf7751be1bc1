"""How much the value of GPUs counts in a cluster."""

import numpy as np

from scheduler_ext.core.node.columns import Floats

# In an empty large cluster, relative to a small one.
_LARGE = 0.5
# By this power of the idle part of a large cluster.
_POWER = 0.75
# For a model that is more used up than all cheaper ones together, value counts up to so many times: packing
# weighs more in a full cluster than in a small one. Fully so from four times the price of their idle GPUs on,
# not at all up to twice, where packing is worth more; ranks count the price by powers of 64.
_LAST = 3.0
_TWICE = 1 / 6


def thrift(idle_part: float, smallness: float) -> float:
    """How much value counts while this part of the cluster's GPUs is idle, 0 to 1. The fuller a large
    cluster, the less a better GPU would stay free, and the more packing decides how many more pods fit."""
    large: float = _LARGE * idle_part**_POWER
    return smallness + (1.0 - smallness) * large


def thrift_of_models(ranks: Floats, idle: Floats, gpus: Floats, idle_part: float, smallness: float) -> Floats:
    """How much the value of each model counts, `[model]`, 0 to 3; the first three arguments as for
    `exhaustion`. In a small cluster it counts in full, and no model more."""
    nearly = exhaustion(ranks, idle, gpus) * (1.0 - smallness)
    counts: Floats = np.maximum(thrift(idle_part, smallness), nearly)
    return counts


def exhaustion(ranks: Floats, idle: Floats, gpus: Floats) -> Floats:
    """How much value counts because a model is more used up than much cheaper ones, 0 to 3, `[model]`:
    its last GPUs stay for pods that need it. From the rank of each model by value, its idle GPUs and
    all its GPUs. It never counts more than that of a dearer model, so that of two models the dearer one
    always costs more."""
    cheaper = (ranks < ranks[:, None]).astype(np.float64)
    of_cheaper = (cheaper @ idle) / np.maximum(cheaper @ gpus, 1e-9)
    left = (idle / np.maximum(gpus, 1e-9)) / np.maximum(of_cheaper, 1e-9)
    apart = ranks - (cheaper @ (idle * ranks)) / np.maximum(cheaper @ idle, 1e-9)
    dear = np.clip(apart / _TWICE - 1.0, 0.0, 1.0)
    nearly = np.where(of_cheaper > 0.0, np.clip(1.0 - left, 0.0, 1.0), 0.0) * dear * _LAST
    least: Floats = np.where(ranks >= ranks[:, None], nearly, _LAST).min(1, initial=_LAST)
    return least
