"""How much the value of GPUs counts in a cluster, by its size and by what is in use."""

import numpy as np

from scheduler_ext.core.node.columns import Floats

# A cluster is small up to so many nodes with GPUs, and large from so many on.
_SMALL_NODES, _LARGE_NODES = 10, 30
# In an empty large cluster, relative to a small one.
_LARGE = 0.5
# By this power of the idle part of a large cluster.
_POWER = 0.75
# For a model that is more used up than all cheaper ones together, value counts up to so many times: packing
# weighs more in a full cluster than in a small one. Fully so from four times the price of their idle GPUs on,
# not at all up to twice, where packing is worth more; ranks count the price by powers of 64.
_LAST = 3.0
_TWICE = 1 / 6


def small_cluster_weight(gpu_nodes: int) -> float:
    """1 for a small cluster, 0 for a large one, evenly between. Which models stay free matters more to those
    who run a few nodes than the last per cent of allocation, which scores gain from a forecast of many
    pods."""
    return min(max((_LARGE_NODES - gpu_nodes) / (_LARGE_NODES - _SMALL_NODES), 0.0), 1.0)


def value_weight(idle_part: float, small_cluster: float) -> float:
    """How much value counts while this part of the cluster's GPUs is idle, 0 to 1. The fuller a large
    cluster, the less a better GPU would stay free, and the more packing decides how many more pods fit."""
    large: float = _LARGE * idle_part**_POWER
    return small_cluster + (1.0 - small_cluster) * large


def value_weights_by_model(
    ranks: Floats, idle: Floats, gpus: Floats, idle_part: float, small_cluster: float
) -> Floats:
    """How much the value of each model counts, `[model]`, 0 to 3; the first three arguments as for
    `scarcity_weights`. In a small cluster it counts in full, and no model more."""
    nearly = scarcity_weights(ranks, idle, gpus) * (1.0 - small_cluster)
    counts: Floats = np.maximum(value_weight(idle_part, small_cluster), nearly)
    return counts


def scarcity_weights(ranks: Floats, idle: Floats, gpus: Floats) -> Floats:
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
