"""Could the pod get a GPU that is held already, through the other of device plugin and DRA?"""

from scheduler_ext.core.framework.criterion import Filter, View
from scheduler_ext.core.framework.refusal import MissKind, NearestMiss, Reason
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest

_BY_CLAIM, _BY_PLUGIN = "through claims", "through the device plugin"


class DoubleAllocation(Filter):
    """Refuses nodes on which a device plugin and DRA offer the same GPUs, while pods hold one of these the
    other way: neither knows what the other has handed out, and the pod could get the same GPU."""

    name = "double-allocation"
    reason = Reason(
        "node(s) had GPUs that device plugin and DRA could hand out twice",
        "The node offers the same GPUs through a device plugin and through DRA, and pods hold some of them"
        " the other way.",
        "Hand out the node's GPUs in one way: remove the device plugin there, or the DRA driver.",
    )
    kind = MissKind.PASSING

    def applies(self, request: GpuRequest) -> bool:
        return bool(request.units)

    def passes(self, view: View) -> Bools:
        passed = view.everywhere(True)
        for _, columns in view.units:
            if columns.any_twice:
                passed &= ~columns.twice
        return passed

    def miss(self, view: View, node: Node) -> NearestMiss:
        names = [ask.resource for ask in view.request.units if ask.resource in node.state.twice]
        have = _BY_CLAIM if names and names[0] not in node.state.by_claim else _BY_PLUGIN
        return NearestMiss(self.name, None, "GPUs free both ways", f"some held {have}", "")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        return f"{node.info.name} offers the same GPUs through device plugin and DRA, and has {miss.have}"
