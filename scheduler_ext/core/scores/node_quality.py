"""Scores of the node itself: what is known of it, its health, and how long the pod may stay."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.core.node.node import NOBODY

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
        ranks = (scoring.snapshot.node.neighbours + NOBODY - 1) / (2 * NOBODY - 1)
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
    """On spot nodes higher for lower priorities; on on-demand nodes the reverse."""

    name = "spot"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and scoring.level != 0.5

    def value(self, scoring: Scoring) -> Floats:
        return np.where(scoring.snapshot.node.spot, 1.0 - scoring.level, scoring.level)
