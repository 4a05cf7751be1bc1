"""Would it fit if the node's sick GPUs were healthy?"""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.framework.criterion import NearestMiss, View
from scheduler_ext.core.framework.reasons import UNHEALTHY
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest


class Health:
    """Refuses nodes that lack GPUs only because some are sick; who lacks more is refused by the count."""

    name = "health"
    reason = UNHEALTHY

    def applies(self, request: GpuRequest) -> bool:
        return request.asks_gpu

    def passes(self, view: View) -> Bools:
        passed = view.everywhere(True)
        for (ask, columns), sick in zip(view.units, view.sick, strict=True):
            if not columns.any_sick:
                continue
            short = columns.available < ask.count
            curable = sick.sum(0)
            passed &= ~(short & (columns.available + curable >= ask.count) & (curable > 0))
        shares = view.request.shares
        if shares is not None:
            free = view.snapshot.devices.share_free_mib
            # Judged by the largest share: only where no healthy GPU takes it, but a sick one would.
            fits = free >= shares.largest_mib
            passed &= (view.eligible & fits).any(0) | ~(view.shareable & fits).any(0)
        return passed

    def miss(self, view: View, node: Node) -> NearestMiss:
        sick = [column[:, view.only] > 0 for column in view.sick]
        if view.request.shares is not None:
            sick.append((view.shareable & ~view.snapshot.devices.healthy)[:, view.only])
        slot = int(np.any(sick, axis=0).argmax())
        return NearestMiss(self.name, node.uuids[slot], "Healthy", "Unhealthy", "health")
