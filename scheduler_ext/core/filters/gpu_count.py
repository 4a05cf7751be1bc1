"""Are enough whole GPUs free?"""

from __future__ import annotations

from collections.abc import Iterator

from scheduler_ext.core.framework.criterion import Filter, View, shortest_unit
from scheduler_ext.core.framework.miss import MissKind, NearestMiss, too_few
from scheduler_ext.core.framework.reasons import Reason
from scheduler_ext.core.framework.relaxation import Change, Trial, fewer_units
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest

INSUFFICIENT_GPUS = Reason(
    "Insufficient nvidia.com/gpu per device",
    "The node has too few whole GPUs that are healthy and held by nobody (of any configured resource name).",
    "Wait for a pod to finish, ask for fewer GPUs, or add nodes.",
)


class GpuCount(Filter):
    """Refuses nodes with fewer healthy, unheld GPUs than requested, per resource and per its allocatable."""

    name = "gpu-count"
    reason = INSUFFICIENT_GPUS
    kind = MissKind.AMOUNT

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

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        return too_few(node, miss)

    def smaller(self, request: GpuRequest, trial: Trial) -> Iterator[Change]:
        return fewer_units(request, trial)
