"""Are the GPUs shared, or not, as the pod needs?"""

from typing import ClassVar

from scheduler_ext.core.framework.criterion import Filter, View
from scheduler_ext.core.framework.refusal import NearestMiss, Reason
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest


class Sharing(Filter):
    """Refuses time-sliced and MPS-shared GPUs to pods that want exclusive ones, and the reverse."""

    name = "sharing"
    reason = Reason(
        "node(s) had GPUs in another sharing mode",
        "The pod wants exclusive GPUs and these are time-sliced or MPS-shared, or it wants a shared resource"
        " and these are not shared.",
        "Drop gpu.scheduler-ext.io/sharing: exclusive, or use nodes without time-slicing.",
    )
    relaxed: ClassVar = {"sharing": lambda _request, _trial: None}

    def applies(self, request: GpuRequest) -> bool:
        shared = any(ask.resource.endswith(".shared") for ask in request.units)
        return request.asks_gpu and (request.exclusive or shared)

    def passes(self, view: View) -> Bools:
        node = view.snapshot.node
        if view.request.exclusive:
            return ~node.shared
        # A node without GPUs has no sharing mode: another filter refuses it.
        passed: Bools = node.shared | (node.devices == 0)
        return passed

    def miss(self, view: View, node: Node) -> NearestMiss:
        needed = "exclusive" if view.request.exclusive else "shared"
        return NearestMiss(self.name, None, needed, "shared" if node.state.shared else "exclusive", "sharing")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        return f"{node.info.name} has {miss.have} GPUs; the pod needs {miss.needed} ones"
