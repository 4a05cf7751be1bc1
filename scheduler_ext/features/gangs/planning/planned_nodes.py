"""Nodes with their planned pods as they were resolved last, for plans that are made again and again."""

from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.node.node import Node, NodeInfo, Slot

# More than the nodes that have planned pods at one time.
_REMEMBERED = 1024
# States of one node: searches for victims try the same few again and again.
_STATES = 4


@dataclass(slots=True)
class _KnownStates:
    """The latest states of a node, and those of its GPUs in this report."""

    report: Report | None
    slots: dict[tuple[str, Hashable], Slot] = field(default_factory=dict)
    states: deque[tuple[NodeInfo, Node]] = field(default_factory=lambda: deque(maxlen=_STATES))


class PlannedNodes:
    """Kept from step to step, because most nodes with planned pods are in the next step as they were in the
    last one. One thread at a time."""

    def __init__(self, sizing: Sizing) -> None:
        self._sizing = sizing
        self._nodes: OrderedDict[str, _KnownStates] = OrderedDict()

    def resolved(self, info: NodeInfo) -> Node:
        """A node in the state that its pods leave, planned ones included."""
        known = self._nodes.get(info.name)
        if known is None:
            known = self._nodes[info.name] = _KnownStates(info.report)
            if len(self._nodes) > _REMEMBERED:
                self._nodes.popitem(last=False)
        for was, node in known.states:
            # Most of the compared fields are the same objects.
            if was == info:
                return node
        if known.report is not info.report:
            known.report, known.slots = info.report, {}
        node = self._sizing.resolved(info, known.slots)
        known.states.appendleft((info, node))
        self._nodes.move_to_end(info.name)
        return node
