"""Do the node's labels say that its GPUs are being changed?"""

from __future__ import annotations

from scheduler_ext.core.framework.criterion import NearestMiss, View
from scheduler_ext.core.framework.reasons import CHANGE_IN_PROGRESS
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest


class ChangeInProgress:
    """Refuses nodes whose MIG layout or driver is being changed: what they report now will not last."""

    name = "change-in-progress"
    reason = CHANGE_IN_PROGRESS

    def applies(self, request: GpuRequest) -> bool:
        return request.asks_gpu

    def passes(self, view: View) -> Bools:
        return ~view.snapshot.node.changing

    def miss(self, view: View, node: Node) -> NearestMiss:
        return NearestMiss(self.name, None, "no change in progress", "change in progress", "labels")
