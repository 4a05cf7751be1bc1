"""The cost of putting a share on each GPU, by which a node's GPU is chosen.

The terms are those that choose the node, if they differ between GPUs of one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from scheduler_ext.core.forecast.demand import part_milli
from scheduler_ext.core.forecast.forecast import WHOLE
from scheduler_ext.core.framework.allocate import Cost, tightest
from scheduler_ext.core.node.columns import Floats, Ints
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.scores import fragmentation, whole_gpus
from scheduler_ext.core.scores.fragmentation import Fragmentation
from scheduler_ext.core.scores.residual_value import ResidualValue
from scheduler_ext.core.scores.whole_gpus import WholeGpus
from scheduler_ext.core.snapshot.snapshot import Snapshot

# More than any difference between GPUs of one model.
_DISLIKE = 1e6
TIE = 1e-4


def share_cost(request: GpuRequest, snapshot: Snapshot, strategy: str, weights: Mapping[str, float]) -> Cost:
    """The cost under a strategy; the order of wished models comes first."""
    size = snapshot.devices.share_size_mib

    def spread(_before: Ints, after: Ints) -> Floats:
        return 1.0 - after / size

    base: Cost
    if strategy == "binpack":
        base = tightest
    elif strategy == "spread":
        base = spread
    else:
        base = _Packing(request, snapshot, weights)
    if len(request.models) < 2:
        return base
    ranks = [request.model_rank(model) for model in snapshot.models]
    worst = len(request.models)
    dislike = (
        _DISLIKE * np.array([worst if r is None else r for r in ranks], np.float64)[snapshot.devices.model]
    )

    def by_model(before: Ints, after: Ints) -> Floats:
        return base(before, after) + dislike

    return by_model


class LossWeights(NamedTuple):
    """The effect of a GPU's loss on the total, by score: its weight over the largest loss of the score."""

    worth: float
    unusable: float
    runs: float

    @classmethod
    def of(cls, weights: Mapping[str, float]) -> LossWeights:
        """From the weights of the scores."""
        return cls(
            worth=weights.get(ResidualValue.name, 0.0),
            unusable=weights.get(Fragmentation.name, 0.0) / (2 * fragmentation.MOST_GPUS),
            runs=weights.get(WholeGpus.name, 0.0) / whole_gpus.MOST_GPUS,
        )


class _Packing:
    """The loss of future demand."""

    def __init__(self, request: GpuRequest, snapshot: Snapshot, weights: Mapping[str, float]) -> None:
        self._devices = snapshot.devices
        demand = snapshot.demand.after(request.cpu_milli, 0, None)
        forecast, per_gpu = demand.forecast, LossWeights.of(weights)
        steps = forecast.unusable.shape[1]
        self._kept = forecast.kept(per_gpu.worth, per_gpu.unusable)
        self._at = (demand.rows * steps + demand.step) * (WHOLE + 1)
        spoilt, fewer = demand.broken
        # In addition, pods of several GPUs lose a GPU that is no longer whole.
        self._breaking = per_gpu.unusable * spoilt + per_gpu.runs * fewer

    def __call__(self, before: Ints, after: Ints) -> Floats:
        was = part_milli(np.maximum(before, 0), self._devices)
        left = part_milli(np.maximum(after, 0), self._devices)
        cost: Floats = self._kept.take(self._at + was) - self._kept.take(self._at + left)
        cost += np.where(was == WHOLE, self._breaking, 0.0)
        # Best fit decides between placements of equal cost.
        return cost + TIE * left / WHOLE
