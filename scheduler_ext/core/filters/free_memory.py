"""Is enough memory free on single GPUs?"""

from __future__ import annotations

from scheduler_ext.core.allocate import fit_shares
from scheduler_ext.core.criterion import NearestMiss, View, offered_units, shareable_slots
from scheduler_ext.core.node import Node
from scheduler_ext.core.reasons import INSUFFICIENT_MEMORY
from scheduler_ext.core.request import GpuRequest
from scheduler_ext.core.snapshot import Bools


class FreeMemory:
    """Keeps nodes where every share finds a GPU and free GPUs have min-free-memory."""

    name = "free-memory"
    reason = INSUFFICIENT_MEMORY

    def applies(self, request: GpuRequest) -> bool:
        return request.asks_gpu and (request.min_free_mib > 0 or request.shares is not None)

    def passes(self, view: View) -> Bools:
        needed = view.request.min_free_mib
        passed = view.narrow(lambda gpu: gpu.free_mib >= needed) if needed else view.everywhere(True)
        shares = view.request.shares
        if shares is None:
            return passed
        passed &= view.snapshot.node.share_limit >= shares.total_mib
        return passed & fit_shares(view.share_room_mib(), shares, passed)

    def miss(self, request: GpuRequest, node: Node) -> NearestMiss:
        if request.shares is None:
            units = [
                (unit.free_mib, uuid) for uuid, slot, unit in offered_units(node, request) if slot.healthy
            ]
            have, uuid = min(units, key=lambda gpu: gpu[0], default=(None, None))
            return NearestMiss(self.name, uuid, request.min_free_mib, have, "MiB")
        gpus = [(slot.share_free_mib, uuid) for uuid, slot in shareable_slots(node) if slot.healthy]
        have, uuid = max(gpus, key=lambda gpu: gpu[0], default=(None, None))
        needed = max(request.shares.largest_mib, request.min_free_mib)
        if have is not None and have >= needed:
            # Each share alone fits: it is their sum, on the GPUs or in the node's allocatable, that does not.
            uuid, needed, have = (
                None,
                request.shares.total_mib,
                min(sum(g for g, _ in gpus), node.state.share_limit),
            )
        return NearestMiss(self.name, uuid, needed, have, "MiB")
