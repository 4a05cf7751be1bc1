"""Are the GPUs shared, or not, as the pod needs?"""

from __future__ import annotations

from scheduler_ext.core.framework.criterion import NearestMiss, View
from scheduler_ext.core.framework.reasons import SHARING_MODE
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest


class Sharing:
    """Refuses time-sliced and MPS-shared GPUs to pods that want exclusive ones, and the reverse."""

    name = "sharing"
    reason = SHARING_MODE

    def applies(self, request: GpuRequest) -> bool:
        return request.asks_gpu and (request.exclusive or _asks_shared(request))

    def passes(self, view: View) -> Bools:
        node = view.snapshot.node
        if view.request.exclusive:
            return ~node.shared
        # A node without GPUs is in no sharing mode: it is refused for what it lacks.
        passed: Bools = node.shared | (node.devices == 0)
        return passed

    def miss(self, view: View, node: Node) -> NearestMiss:
        needed = "exclusive" if view.request.exclusive else "shared"
        return NearestMiss(self.name, None, needed, "shared" if node.state.shared else "exclusive", "sharing")


def _asks_shared(request: GpuRequest) -> bool:
    return any(ask.resource.endswith(".shared") for ask in request.units)
