"""Scores of the node itself (reports, health, the time that the pod may stay) and of the pod's own wishes."""

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.core.node.node import NO_NEIGHBOURS

# For shares the GPU matters more than its node: a GPU filled up is one fewer to fragment.
_GPU_PART = 0.7
_EMPTINESS_PART = 0.7
# It decides between otherwise equal nodes: later evictions matter less than room and health now.
_NEIGHBOURS_PART = 0.05


class Reported:
    """1 on nodes with a report, 0 on those known by their labels only. Not among the weighted scores: the
    cycle gives it a part that no other term can outweigh."""

    name = "reported"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.snapshot.some_estimated

    def value(self, scoring: Scoring) -> Floats:
        return np.where(scoring.snapshot.node.estimated, 0.0, 1.0)


class NodeHealth:
    """The part of the node's GPUs that are healthy: a node that lost one may be about to lose another."""

    name = "health"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu

    def value(self, scoring: Scoring) -> Floats:
        return scoring.snapshot.health


class Priority:
    """Emptiness after placement (headroom kept), health and neighbours that are not evicted easily, in favour
    of high levels; fullness for low ones. For a pod with its own strategy, emptiness does not count."""

    name = "priority"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and scoring.level != 0.5

    def value(self, scoring: Scoring) -> Floats:
        level = scoring.level
        reliable = level * scoring.snapshot.health + (1 - level) * 0.5
        ranks = (scoring.snapshot.node.neighbours + NO_NEIGHBOURS - 1) / (2 * NO_NEIGHBOURS - 1)
        # Pods of low priority accept any neighbour.
        high = max(0.0, 2 * level - 1)
        steady = high * ranks + (1 - high) * 0.5
        now = reliable
        if scoring.request.strategy is None:
            # An unhealthy GPU is no headroom.
            idle = scoring.idle_after * scoring.snapshot.health
            empty = level * idle + (1 - level) * (1 - idle)
            now = _EMPTINESS_PART * empty + (1 - _EMPTINESS_PART) * reliable
        value: Floats = _NEIGHBOURS_PART * steady + (1 - _NEIGHBOURS_PART) * now
        return value


class Spot:
    """Sends pods of low priority to spot nodes, and pods of high priority to on-demand nodes."""

    name = "spot"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and scoring.level != 0.5

    def value(self, scoring: Scoring) -> Floats:
        return np.where(scoring.snapshot.node.spot, 1.0 - scoring.level, scoring.level)


class BestFit:
    """1 if least is left over, on the GPUs that get shares and on the node; the reverse for spread."""

    name = "best-fit"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and scoring.strategy in ("binpack", "spread")

    def value(self, scoring: Scoring) -> Floats:
        full: Floats = 1.0 - scoring.idle_after
        if scoring.fit is not None:
            devices, load = scoring.snapshot.devices, scoring.fit.load_mib
            left = [
                np.maximum(devices.share_free_mib[where] - load[where], 0) / devices.share_size_mib[where]
                for where in scoring.per_share
            ]
            tight = 1.0 - sum(left) / len(left)
            full = _GPU_PART * tight + (1 - _GPU_PART) * full
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
