"""Is the GPU large enough, were it empty?"""

from __future__ import annotations

from typing import ClassVar

from scheduler_ext.core.framework.criterion import Filter, View, offered_units, shareable_slots
from scheduler_ext.core.framework.miss import MissKind, NearestMiss, short_of_memory
from scheduler_ext.core.framework.reasons import Reason
from scheduler_ext.core.framework.relaxation import less_memory
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest

GPU_TOO_SMALL = Reason(
    "node(s) had GPUs too small",
    "The GPUs can never hold the request: their total memory is below min-memory or below one share.",
    "Lower gpu.scheduler-ext.io/min-memory or the share, or use nodes with larger GPUs.",
)


class TotalMemory(Filter):
    """Keeps GPUs with at least min-memory in total; for shares, those that could ever hold the largest.

    A whole GPU counts as the pod would see it: an instance under MIG strategy single, a part under MPS.
    """

    name = "total-memory"
    reason = GPU_TOO_SMALL
    kind = MissKind.SIZE
    relaxed: ClassVar = {"min-memory": less_memory("min_memory_mib")}

    def applies(self, request: GpuRequest) -> bool:
        return request.asks_gpu and (request.min_memory_mib > 0 or request.shares is not None)

    def passes(self, view: View) -> Bools:
        needed = view.request.min_memory_mib
        passed = view.narrow(lambda gpu: gpu.total_mib >= needed) if needed else view.everywhere(True)
        shares = view.request.shares
        if shares is None:
            return passed
        # A node without GPUs for shares lacks memory, not size: the free-memory filter refuses it.
        ever = (view.shareable & (view.snapshot.devices.total_mib >= shares.largest_mib)).any(0)
        return passed & (ever | ~view.shareable.any(0))

    def miss(self, view: View, node: Node) -> NearestMiss:
        gpus = [(unit.memory_mib, uuid) for uuid, _, unit in offered_units(node, view.request)]
        needed = view.request.min_memory_mib
        if view.request.shares is not None:
            gpus += [(slot.total_mib, uuid) for uuid, slot in shareable_slots(node)]
            if not any(total < needed for total, _ in gpus):
                needed = view.request.shares.largest_mib
                gpus = [(slot.total_mib, uuid) for uuid, slot in shareable_slots(node)]
        have, uuid = max(
            (gpu for gpu in gpus if gpu[0] < needed), key=lambda gpu: gpu[0], default=(None, None)
        )
        return NearestMiss(self.name, uuid, needed, have, "MiB")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        return short_of_memory(node, self.reason.text, miss)
