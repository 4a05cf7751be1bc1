"""Do the node's labels say that its GPUs are being changed?"""

from collections.abc import Callable

from scheduler_ext.core.framework.criterion import Filter, View
from scheduler_ext.core.framework.refusal import MissKind, NearestMiss, Reason
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.request.request import GpuRequest

_WAIT = "Wait until nvidia.com/mig.config.state is success and the driver upgrade is done."


class ChangeInProgress(Filter):
    """Refuses nodes whose MIG layout or driver is being changed, because their report will not last."""

    name = "change-in-progress"
    reason = Reason(
        "node(s) had a GPU change in progress",
        "The node's labels say that its MIG layout or its driver is being changed, or that such a change"
        " failed.",
        f"{_WAIT} After a failure, have an operator read the log of the MIG manager or of the driver on that"
        " node.",
    )
    kind = MissKind.PASSING

    def passes(self, view: View) -> Bools:
        return ~view.snapshot.node.changing

    def miss(self, view: View, node: Node) -> NearestMiss:
        have = "failed change" if node.info.failed_change else "change in progress"
        return NearestMiss(self.name, None, "no change in progress", have, "labels")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        if node.info.failed_change:
            return f"a change of the GPUs of {node.info.name} failed ({node.info.failed_change})"
        return f"{node.info.name} has a GPU change in progress: its MIG layout or its driver"

    def for_operators(
        self, _miss: NearestMiss, node: Node, _request: GpuRequest, _fits: Callable[[NodeInfo], bool]
    ) -> str | None:
        failed = node.info.failed_change
        if not failed:
            return _WAIT
        if failed.startswith("nvidia.com/mig."):
            return (
                f"have an operator read the log of the MIG manager on {node.info.name}, and set"
                " nvidia.com/mig.config to a layout that it can apply: the node takes no pods until the state"
                " is success"
            )
        return (
            f"have an operator read the log of the driver pod on {node.info.name}: the node takes no pods"
            " until the upgrade is done"
        )
