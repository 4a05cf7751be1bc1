"""Scores of the node itself (reports, health, the time that the pod may stay) and of what the pod prefers."""

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.core.node.node import eviction_rank

# For shares the GPU matters more than its node: a GPU filled up is one fewer to fragment.
_GPU_PART = 0.7
# A tie-break: above the resolution of points, and below what one idle GPU of a node counts in `tightness`.
NEIGHBOURS_PART = 0.00085


class Reported:
    """1 on nodes with a fresh report, 0 on those known by their labels or an old report only. Not among the
    weighted scores: the cycle gives it a part that no other term can outweigh."""

    name = "reported"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.snapshot.some_unreported

    def value(self, scoring: Scoring) -> Floats:
        return np.where(scoring.snapshot.node.unreported, 0.0, 1.0)


class WholeBeforeSlice:
    """0 where the pod would get a time slice, a part by MPS, a MIG instance that is handed out as a GPU, or a
    fraction of a GPU by the cloud, which alone a pod that wants exclusive GPUs may get; 1 on other nodes. Not
    among the weighted scores either."""

    name = "whole-before-slice"

    def applies(self, scoring: Scoring) -> bool:
        return (
            bool(scoring.request.whole) and scoring.request.sharing != "any" and scoring.snapshot.some_sliced
        )

    def value(self, scoring: Scoring) -> Floats:
        return np.where(scoring.snapshot.node.in_parts, 0.0, 1.0)


class NodeHealth:
    """The part of the node's GPUs that are healthy: a node that lost one may be about to lose another."""

    name = "health"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu

    def value(self, scoring: Scoring) -> Floats:
        return scoring.snapshot.health


class Priority:
    """Reliable nodes for pods of high priority: healthy ones, and of equals one whose pods are no easier to
    evict than this pod. Pods of low priority accept any node. Emptiness does not count, so that pods of any
    priority leave room for large pods."""

    name = "priority"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and scoring.level > 0.5

    def value(self, scoring: Scoring) -> Floats:
        stay = scoring.snapshot.node.neighbours >= eviction_rank(scoring.request.priority)
        reliable = (1 - NEIGHBOURS_PART) * scoring.snapshot.health + NEIGHBOURS_PART * stay
        high = 2 * scoring.level - 1
        value: Floats = 1.0 - high * (1.0 - reliable)
        return value


class Spot:
    """1 on spot nodes for pods of low priority, on on-demand nodes for pods of high priority, however low or
    high: a pod either accepts an interruption or does not."""

    name = "spot"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and scoring.level != 0.5

    def value(self, scoring: Scoring) -> Floats:
        return np.where(scoring.snapshot.node.spot == (scoring.level < 0.5), 1.0, 0.0)


class BestFitScore:
    """1 if least is left over, on the GPUs that get shares and on the node; the reverse for spread."""

    name = "best-fit"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and scoring.strategy in ("binpack", "spread")

    def value(self, scoring: Scoring) -> Floats:
        full: Floats = 1.0 - scoring.idle_after
        if scoring.takes_parts:
            full = _GPU_PART * (1.0 - scoring.left_of_parts) + (1 - _GPU_PART) * full
        return 1.0 - full if scoring.strategy == "spread" else full


class ModelPreference:
    """1 on the model named first, 0 on the one named last, evenly between. Where the device plugin picks
    among several models of a node, the least liked one counts."""

    name = "model-preference"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and len(scoring.request.models) > 1

    def value(self, scoring: Scoring) -> Floats:
        last = len(scoring.request.models) - 1
        ranks = [scoring.request.model_rank(model) for model in scoring.snapshot.models]
        rank = np.array([last if r is None else r for r in ranks], np.float64)
        parts = [np.where(columns.free > 0, rank[columns.model], 0.0).max(0) for _, columns in scoring.units]
        parts += [rank[scoring.snapshot.devices.model[where]] for where in scoring.per_share]
        value: Floats = np.clip(1.0 - sum(parts) / len(parts) / last, 0.0, 1.0)
        return value
