"""Could an empty GPU of the node hold the request, and do its GPUs have enough free memory now?"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar, Final

from scheduler_ext.core.framework.allocate import fit_shares
from scheduler_ext.core.framework.criterion import Change, Filter, Lower, Trial, View
from scheduler_ext.core.framework.refusal import MissKind, NearestMiss, Reason, plain_sentence, where
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node, NodeInfo, Slot, Unit
from scheduler_ext.core.node.node_labels import MEMORY_LABEL
from scheduler_ext.core.node.unreported import cause, label_memory, remedy
from scheduler_ext.core.request.request import GpuRequest, ShareRequest

_OF_SHARES: Final = "MiB of shares"


def _less_memory(field: str) -> Lower:
    """Lowers a field in MiB to the largest amount that fits."""

    def lower(request: GpuRequest, trial: Trial) -> Change | None:
        asked_mib: int = getattr(request, field)

        def with_mib(mib: int) -> GpuRequest:
            return replace(request, **{field: mib})  # type: ignore[arg-type]  # an amount in MiB by its name

        most = trial.largest(asked_mib - 1, with_mib)
        return (f"{_quantity(most)} instead of {_quantity(asked_mib)}", with_mib(most)) if most else None

    return lower


def _quantity(mib: int) -> str:
    return f"{mib // 1024}Gi" if mib % 1024 == 0 else f"{mib}Mi"


def _units(node: Node, request: GpuRequest) -> list[tuple[str | None, Slot, Unit]]:
    asked = {ask.resource for ask in request.units}
    return [(uuid, slot, unit) for uuid, slot in node.gpus for unit in slot.units if unit.resource in asked]


class _MemoryFilter(Filter):
    """Memory in MiB of one GPU."""

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        place, needed, have = where(node, miss.device), miss.needed, miss.have
        if not isinstance(needed, int) or not isinstance(have, int):
            return plain_sentence(place, self.reason.text, miss)
        return f"{place} is {needed - have:,} MiB short (needs {needed:,}, has {have:,})"


class KnownMemory(_MemoryFilter):
    """Refuses nodes with GPUs of unknown memory if the pod asks for an amount. The driver of some states
    none, and without that their free memory is unknown even where a label states the total."""

    name = "known-memory"
    reason = Reason(
        "node(s) had GPUs of unknown memory",
        "The driver does not state the memory of the node's GPUs, as on DGX Spark and Jetson, and the pod"
        " asks for an amount of it; or only ResourceSlices list them, and it asks for memory that is free.",
        f"Label the node with the MiB of one GPU ({MEMORY_LABEL}), which serves min-memory and memory shares,"
        " run an agent, which measures free memory, or leave the wish out.",
    )

    def applies(self, request: GpuRequest) -> bool:
        return request.asks_gpu and bool(
            request.min_memory_mib or request.min_free_mib or request.shares is not None
        )

    def passes(self, view: View) -> Bools:
        wants_free = view.request.min_free_mib > 0
        return view.narrow(lambda gpu: (gpu.total_mib > 0) & ((gpu.free_mib >= 0) | (not wants_free)))

    def miss(self, view: View, node: Node) -> NearestMiss:
        request = view.request
        sizes = [(unit.memory_mib, unit.free_mib, uuid) for uuid, _, unit in _units(node, request)]
        sizes += [(slot.total_mib, 0, uuid) for uuid, slot in node.gpus if request.shares is not None]
        total, uuid = next(((total, uuid) for total, free, uuid in sizes if not total or free < 0), (0, None))
        share_mib = request.shares.largest_mib if request.shares is not None else 0
        needed = (
            request.min_free_mib if total else max(request.min_memory_mib, request.min_free_mib, share_mib)
        )
        return NearestMiss(self.name, uuid, needed, None, "MiB")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        totals = {uuid: slot.total_mib for uuid, slot in node.gpus}
        stated = totals.get(miss.device)
        which = "free memory" if stated else "memory"
        why = cause(node.info) if stated and _unmeasured(node) else "its driver does not state it"
        gpu, needs = where(node, miss.device), f"the pod needs {miss.needed:,} MiB"
        return f"the {which} of {gpu} is not known: {why}; {needs}"

    def for_operators(
        self, miss: NearestMiss, node: Node, request: GpuRequest, _fits: Callable[[NodeInfo], bool]
    ) -> str | None:
        stated = any(slot.total_mib for uuid, slot in node.gpus if uuid == miss.device)
        if stated and _unmeasured(node):
            step = remedy(node.info)
            return f"have an operator {step}" if step is not None else None
        # No label states the free memory of whole GPUs.
        if stated or (request.min_free_mib and request.units):
            return None
        return f"have an operator {label_memory(node.info)}"


def _unmeasured(node: Node) -> bool:
    """Whether only ResourceSlices list the node's GPUs, so that the use of their memory is not measured."""
    return node.info.report is not None and node.info.report.from_slices


class TotalMemory(_MemoryFilter):
    """Keeps GPUs with at least min-memory in total; for shares, those that could ever hold the largest. A
    whole GPU counts as the pod would see it: an instance under MIG strategy single, a part under MPS."""

    name = "total-memory"
    reason = Reason(
        "node(s) had GPUs too small",
        "The GPUs can never hold the request: their total memory is below min-memory or below one share.",
        "Lower gpu.scheduler-ext.io/min-memory or the share, or use nodes with larger GPUs.",
    )
    kind = MissKind.SIZE
    relaxed: ClassVar = {"min-memory": _less_memory("min_memory_mib")}

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
        gpus = [(unit.memory_mib, uuid) for uuid, _, unit in _units(node, view.request)]
        needed = view.request.min_memory_mib
        if view.request.shares is not None:
            for_shares = [(slot.total_mib, uuid) for uuid, slot in node.gpus if slot.share_free_mib >= 0]
            gpus += for_shares
            if not any(total < needed for total, _ in gpus):
                needed, gpus = view.request.shares.largest_mib, for_shares
        small = (gpu for gpu in gpus if gpu[0] < needed)
        have, uuid = max(small, key=lambda gpu: gpu[0], default=(None, None))
        return NearestMiss(self.name, uuid, needed, have, "MiB")


class FreeMemory(_MemoryFilter):
    """Keeps nodes where every share finds a GPU and free GPUs have min-free-memory."""

    name = "free-memory"
    reason = Reason(
        "Insufficient GPU memory on one device",
        "No single GPU has the requested memory free, although the GPUs of the node together may.",
        "Ask for a smaller share or a lower min-free-memory, or wait for other pods on the GPU to end.",
    )
    kind = MissKind.AMOUNT
    relaxed: ClassVar = {"min-free-memory": _less_memory("min_free_mib")}

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
                (unit.free_mib, uuid)
                for uuid, slot, unit in _units(node, request)
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
            return NearestMiss(self.name, None, shares.total_mib, node.state.share_limit, _unit(node))
        return self._short(max(share.memory_mib for share in shares.init), room, node)

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        if miss.unit == _OF_SHARES:
            return f"{node.info.name} hands out no memory shares; the pod needs {miss.needed:,} MiB"
        return super().sentence(miss, node)

    def smaller(self, request: GpuRequest, trial: Trial) -> Iterator[Change]:
        """The largest share that fits on some node; of several shares, the largest size for all of them."""
        shares = request.shares
        if shares is None or request.units:
            return

        def with_mib(most_mib: int) -> GpuRequest:
            running = tuple((container, min(mib, most_mib)) for container, mib in shares.running)
            init = tuple(replace(each, memory_mib=min(each.memory_mib, most_mib)) for each in shares.init)
            return replace(request, shares=ShareRequest(running, init))

        most = trial.largest(shares.largest_mib - 1, with_mib)
        if most and len(shares.by_container) == 1:
            yield f"with a share of {most:,} MiB instead of {shares.largest_mib:,}", with_mib(most)
        elif most:
            yield f"with no share above {most:,} MiB", with_mib(most)

    def _short(self, needed_mib: int, room_mib: list[int], node: Node) -> NearestMiss:
        """The missing amount on the GPU with most room; a node without any has 0."""
        have = max(room_mib)
        uuid = node.uuids[room_mib.index(have)] if have >= 0 and node.uuids else None
        return NearestMiss(self.name, uuid, needed_mib, max(have, 0), _unit(node))


def _unit(node: Node) -> str:
    """What shares need; the GPUs of nodes that hand out none may have free memory."""
    return "MiB" if node.state.offers_shares or not node.state.gpus else _OF_SHARES
