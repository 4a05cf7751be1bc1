"""Is enough memory free on single GPUs?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from scheduler_ext.core.framework.allocate import fit_shares
from scheduler_ext.core.framework.criterion import Filter, View, offered_units
from scheduler_ext.core.framework.miss import MissKind, NearestMiss, short_of_memory
from scheduler_ext.core.framework.reasons import Reason
from scheduler_ext.core.framework.relaxation import Change, Trial, largest, less_memory
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest, ShareAsk

INSUFFICIENT_MEMORY = Reason(
    "Insufficient GPU memory on one device",
    "No single GPU has the asked memory free, though the node's sum may suffice.",
    "Ask for a smaller share or a lower min-free-memory; a neighbour that leaves also helps.",
)


class FreeMemory(Filter):
    """Keeps nodes where every share finds a GPU and free GPUs have min-free-memory."""

    name = "free-memory"
    reason = INSUFFICIENT_MEMORY
    kind = MissKind.AMOUNT
    relaxed: ClassVar = {"min-free-memory": less_memory("min_free_mib")}

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

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        return short_of_memory(node, self.reason.text, miss)

    def smaller(self, request: GpuRequest, trial: Trial) -> Iterator[Change]:
        """The largest share that fits on some node; of several shares, the largest size for all of them."""
        shares = request.shares
        if shares is None or request.units:
            return

        def with_mib(most_mib: int) -> GpuRequest:
            running = tuple((container, min(mib, most_mib)) for container, mib in shares.running)
            init = tuple(replace(each, memory_mib=min(each.memory_mib, most_mib)) for each in shares.init)
            return replace(request, shares=ShareAsk(running, init))

        asked_mib = shares.largest_mib
        most = largest(1, asked_mib - 1, lambda mib: trial.fits(with_mib(mib)) > 0)
        if most and len(shares.by_container) == 1:
            yield f"with a share of {most:,} MiB instead of {asked_mib:,}", with_mib(most)
        elif most:
            yield f"with no share above {most:,} MiB", with_mib(most)

    def _short(self, needed_mib: int, room_mib: list[int], node: Node) -> NearestMiss:
        """The missing amount on the GPU with most room; a node without any has 0."""
        have = max(room_mib)
        uuid = node.uuids[room_mib.index(have)] if have >= 0 and node.uuids else None
        return NearestMiss(self.name, uuid, needed_mib, max(have, 0), "MiB")
