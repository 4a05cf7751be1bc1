"""The cost of putting a share on each GPU, by which a node's GPU is chosen. The terms are those that choose
the node, if they differ between GPUs of one node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from scheduler_ext.core.forecast.demand import part_milli
from scheduler_ext.core.forecast.forecast import WHOLE
from scheduler_ext.core.framework.allocate import Cost, tightest
from scheduler_ext.core.node.columns import Floats, Ints
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.scores.future_demand import Fragmentation, ResidualValue, WholeGpus
from scheduler_ext.core.scores.value import Value
from scheduler_ext.core.snapshot.snapshot import Snapshot

# More than any difference between GPUs of one model.
_DISLIKE = 1e6
TIE = 1e-4


def share_cost(
    request: GpuRequest,
    snapshot: Snapshot,
    strategy: str,
    weights: Mapping[str, float],
    values: Mapping[str, float],
) -> Cost:
    """The cost under a strategy; the order of wanted models comes first."""
    base: Cost = tightest
    if strategy != "binpack":
        base = _spread(snapshot) if strategy == "spread" else _packing(request, snapshot, weights, values)
    if len(request.models) < 2:
        return base
    worst = len(request.models)
    ranks = [request.model_rank(model) for model in snapshot.models]
    by_model = np.array([worst if rank is None else rank for rank in ranks], np.float64)
    dislike = _DISLIKE * by_model[snapshot.devices.model]
    return lambda before, after: base(before, after) + dislike


class LossWeights(NamedTuple):
    """The effect of a GPU's loss on the total, by score: its weight over the largest loss of the score."""

    worth: float
    unusable: float
    runs: float

    @classmethod
    def of(cls, weights: Mapping[str, float]) -> LossWeights:
        return cls(
            worth=weights.get(ResidualValue.name, 0.0),
            unusable=weights.get(Fragmentation.name, 0.0) / (2 * Fragmentation.most_gpus),
            runs=weights.get(WholeGpus.name, 0.0) / WholeGpus.most_gpus,
        )


def _spread(snapshot: Snapshot) -> Cost:
    size = snapshot.devices.share_size_mib
    return lambda _before, after: 1.0 - after / size


def _packing(
    request: GpuRequest, snapshot: Snapshot, weights: Mapping[str, float], values: Mapping[str, float]
) -> Cost:
    """The loss of future demand, and of value."""
    devices, demand = snapshot.devices, snapshot.demand.after(request.cpu_milli, 0, None)
    forecast, per_gpu = demand.forecast, LossWeights.of(weights)
    kept = forecast.kept(per_gpu.worth, per_gpu.unusable)
    at = (demand.rows * forecast.unusable.shape[1] + demand.step) * (WHOLE + 1)
    spoilt, fewer = demand.broken
    # In addition, pods of several GPUs lose a GPU that is no longer whole.
    breaking = per_gpu.unusable * spoilt + per_gpu.runs * fewer
    ranks = None
    if request.strategy is None and snapshot.value_ranks(values).differ:
        counts = weights.get(Value.name, 0.0) * snapshot.value_weights(values)
        ranks = snapshot.value_ranks(values).of(devices.model, counts)

    def cost(before: Ints, after: Ints) -> Floats:
        was = part_milli(np.maximum(before, 0), devices)
        left = part_milli(np.maximum(after, 0), devices)
        lost: Floats = kept.take(at + was) - kept.take(at + left)
        lost += np.where(was == WHOLE, breaking, 0.0)
        if ranks is not None:
            lost += ranks
        # Best fit decides between placements of equal cost.
        return lost + TIE * left / WHOLE

    return cost
