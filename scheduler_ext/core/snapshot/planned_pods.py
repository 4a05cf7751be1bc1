"""The planned pods of a snapshot: the nodes that a pod sees differently because of them."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from scheduler_ext.core.node.node import BoundPod


class PlannedPods:
    """Pods whose place a planner keeps, by node. A look does not grow with their number: every pod sees the
    nodes as they are, except for its own place, and for those of pods of lower priority."""

    def __init__(self, by_node: Mapping[str, Sequence[BoundPod]]) -> None:
        self._node_of = {pod.uid: node for node, pods in by_node.items() for pod in pods}
        ranked = sorted((min(pod.priority for pod in pods), node) for node, pods in by_node.items())
        self.kept = [node for node, pods in by_node.items() if any(pod.expected for pod in pods)]
        """The nodes with room that is kept for gangs."""
        self._lowest = [lowest for lowest, _ in ranked]
        self._nodes = [node for _, node in ranked]

    def __len__(self) -> int:
        return len(self._node_of)

    def node_of(self, uid: str) -> str | None:
        """The node that keeps a place for a pod."""
        return self._node_of.get(uid)

    def nodes_with_planned_pods(self, uid: str, priority: int) -> list[str]:
        """The nodes that a pod of that uid and priority sees differently."""
        lower = self._nodes[: bisect_left(self._lowest, priority)]
        own = self._node_of.get(uid)
        return lower if own is None or own in lower else [*lower, own]


NO_PLANNED = PlannedPods({})
