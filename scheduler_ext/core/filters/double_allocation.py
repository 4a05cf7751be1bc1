"""Could the pod get a GPU that is held already, through the other of device plugin and DRA?"""

from collections.abc import Mapping

from scheduler_ext.core.framework.criterion import Filter, View
from scheduler_ext.core.framework.refusal import MissKind, NearestMiss, Reason
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.node.node_labels import HANDED_OUT_BY_LABEL, Way
from scheduler_ext.core.request.request import GpuRequest

_THE: Mapping[Way, str] = {"claims": "claims", "device plugin": "the device plugin"}


class DoubleAllocation(Filter):
    """Refuses nodes whose GPUs a device plugin and DRA offer both, to pods that would get one through the
    other of the two than the node hands out by: neither knows what the other has handed out, and the pod
    could get the same GPU."""

    name = "double-allocation"
    reason = Reason(
        "node(s) had GPUs that device plugin and DRA could hand out twice",
        "The node offers the same GPUs through a device plugin and through DRA, and hands them out the other"
        " way: as pods hold them now, otherwise as its label says, otherwise through the device plugin.",
        f"Remove the device plugin there, or the DRA driver; or set the node label {HANDED_OUT_BY_LABEL} to"
        " dra or device-plugin, which counts while no pod holds a GPU of the node.",
    )
    kind = MissKind.PASSING

    def applies(self, request: GpuRequest) -> bool:
        return request.asks_gpu

    def passes(self, view: View) -> Bools:
        passed = view.everywhere(True)
        for _, columns in view.units:
            if columns.any_twice:
                passed &= ~columns.twice
        if view.request.shares is not None:
            passed &= ~view.snapshot.node.shares_twice
        return passed

    def miss(self, view: View, node: Node) -> NearestMiss:
        state = node.state
        closed = [ask.resource for ask in view.request.units if ask.resource in state.twice]
        needed: Way = "claims" if closed and closed[0] in state.by_claim else "device plugin"
        other: Way = "device plugin" if needed == "claims" else "claims"
        have = f"some held through {_THE[other]}" if other in state.in_use else f"those of {_THE[other]}"
        return NearestMiss(self.name, None, f"GPUs of {_THE[needed]}", have, "")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        start = f"{node.info.name} offers the same GPUs through device plugin and DRA"
        if node.state.in_use:
            return f"{start}, and has {miss.have}"
        if node.info.handed_out_by is None:
            return f"{start}, and has no label {HANDED_OUT_BY_LABEL}: the device plugin hands them out"
        hands = "claims hand" if node.info.handed_out_by == "claims" else "the device plugin hands"
        return f"{start}, and by its label {hands} them out"
