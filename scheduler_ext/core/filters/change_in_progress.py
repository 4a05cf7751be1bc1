"""Do the node's labels say that its GPUs are being changed?"""

from scheduler_ext.core.framework.criterion import Filter, View
from scheduler_ext.core.framework.refusal import MissKind, NearestMiss, Reason
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node


class ChangeInProgress(Filter):
    """Refuses nodes whose MIG layout or driver is being changed, because their report will not last."""

    name = "change-in-progress"
    reason = Reason(
        "node(s) had a GPU change in progress",
        "The node's labels say that its MIG layout or its driver is being changed.",
        "Wait until nvidia.com/mig.config.state is success and the driver upgrade is done.",
    )
    kind = MissKind.PASSING

    def passes(self, view: View) -> Bools:
        return ~view.snapshot.node.changing

    def miss(self, view: View, node: Node) -> NearestMiss:
        return NearestMiss(self.name, None, "no change in progress", "change in progress", "labels")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        return f"{node.info.name} has a GPU change in progress: its MIG layout or its driver"
