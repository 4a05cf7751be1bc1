"""Are enough whole GPUs free?"""

from __future__ import annotations

from scheduler_ext.core.framework.criterion import NearestMiss, View, shortest_unit
from scheduler_ext.core.framework.reasons import INSUFFICIENT_GPUS
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest


class GpuCount:
    """Refuses nodes with fewer healthy, unheld GPUs than asked, per resource and per its allocatable."""

    name = "gpu-count"
    reason = INSUFFICIENT_GPUS

    def applies(self, request: GpuRequest) -> bool:
        return any(ask.profile is None for ask in request.units)

    def passes(self, view: View) -> Bools:
        passed = view.everywhere(True)
        for ask, columns in view.units:
            if ask.profile is None:
                passed &= columns.available >= ask.count
        return passed

    def miss(self, view: View, node: Node) -> NearestMiss:
        ask, have = shortest_unit([ask for ask in view.request.units if ask.profile is None], node)
        return NearestMiss(self.name, None, ask.count, have, ask.resource)
