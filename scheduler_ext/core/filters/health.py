"""Would it fit if the node's sick GPUs were healthy?"""

from __future__ import annotations

from scheduler_ext.core.criterion import NearestMiss, View, offered_units, shareable_slots
from scheduler_ext.core.node import Node
from scheduler_ext.core.reasons import UNHEALTHY
from scheduler_ext.core.request import GpuRequest
from scheduler_ext.core.snapshot import Bools


class Health:
    """Refuses nodes that lack GPUs only because some are sick; who lacks more is refused by the count."""

    name = "health"
    reason = UNHEALTHY

    def applies(self, request: GpuRequest) -> bool:
        return request.asks_gpu

    def passes(self, view: View) -> Bools:
        passed = view.everywhere(True)
        for ask, columns in view.units:
            short = columns.available < ask.count
            passed &= ~(short & (columns.available + columns.sick >= ask.count) & (columns.sick > 0))
        shares = view.request.shares
        if shares is not None:
            free = view.snapshot.devices.share_free_mib
            # Judged by the largest share: only where no healthy GPU takes it, but a sick one would.
            fits = free >= shares.largest_mib
            passed &= (view.eligible & fits).any(0) | ~(view.shareable & fits).any(0)
        return passed

    def miss(self, request: GpuRequest, node: Node) -> NearestMiss:
        gpus = [(uuid, slot) for uuid, slot, _ in offered_units(node, request)]
        if request.shares is not None:
            gpus += shareable_slots(node)
        sick = next((uuid for uuid, slot in gpus if not slot.healthy), None)
        return NearestMiss(self.name, sick, "Healthy", "Unhealthy", "health")
