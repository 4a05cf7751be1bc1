"""Prefer nodes without sick GPUs."""

from __future__ import annotations

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats


class NodeHealth:
    """The part of the node's GPUs that are healthy: a node that lost one may be about to lose another."""

    name = "health"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu

    def value(self, scoring: Scoring) -> Floats:
        return scoring.snapshot.health
