"""Is enough memory free on single GPUs?"""

from __future__ import annotations

from scheduler_ext.core.framework.allocate import fit_shares
from scheduler_ext.core.framework.criterion import NearestMiss, View, offered_units
from scheduler_ext.core.framework.reasons import INSUFFICIENT_MEMORY
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest


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
        return passed & fit_shares(view.share_room_mib(), shares, passed, view.steps)

    def miss(self, view: View, node: Node) -> NearestMiss:
        request, shares = view.request, view.request.shares
        if shares is None:
            units = [
                (unit.free_mib, u)
                for u, slot, unit in offered_units(node, request)
                if slot.healthy and unit.free
            ]
            have, uuid = min(units, key=lambda gpu: gpu[0], default=(0, None))
            return NearestMiss(self.name, uuid, request.min_free_mib, have, "MiB")
        room = view.room_here_mib()
        if max(room) < request.min_free_mib and request.min_free_mib:
            return self._short(request.min_free_mib, room, node)
        room = [mib if mib >= request.min_free_mib else -1 for mib in room]
        for mib in sorted((mib for _, mib in shares.running), reverse=True):
            fitting = [slot for slot, left in enumerate(room) if left >= mib]
            if not fitting:
                return self._short(mib, room, node)
            room[min(fitting, key=room.__getitem__)] -= mib
        if node.state.share_limit < shares.total_mib:
            return NearestMiss(self.name, None, shares.total_mib, node.state.share_limit, "MiB")
        return self._short(max(share.memory_mib for share in shares.init), room, node)

    def _short(self, needed_mib: int, room_mib: list[int], node: Node) -> NearestMiss:
        """The GPU with most room left is that much short; none at all has 0."""
        have = max(room_mib)
        uuid = node.uuids[room_mib.index(have)] if have >= 0 and node.uuids else None
        return NearestMiss(self.name, uuid, needed_mib, max(have, 0), "MiB")
