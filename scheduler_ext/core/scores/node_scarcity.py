"""Leave the rare large nodes to the pods that fit on no other."""

from __future__ import annotations

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats


class NodeScarcity:
    """1 on nodes whose size no pod needs, lower with the demand for such nodes."""

    name = "node-scarcity"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.packs and scoring.request.asks_gpu

    def value(self, scoring: Scoring) -> Floats:
        value: Floats = 1.0 - scoring.snapshot.host_scarcity
        return value
