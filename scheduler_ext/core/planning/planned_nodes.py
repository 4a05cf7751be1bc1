"""Nodes with their planned pods as they were resolved last, for plans that are made again and again."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.node.node import Node, NodeInfo, Slot

# More than the nodes that have planned pods at one time.
_REMEMBERED = 1024


@dataclass(slots=True)
class _Known:
    """A node as it was resolved last, and the states of its GPUs so far."""

    info: NodeInfo
    node: Node
    slots: dict[tuple[str, Hashable], Slot]


class PlannedNodes:
    """Kept from step to step, because most nodes with planned pods are in the next step as they were in the
    last one. One thread at a time."""

    def __init__(self, sizing: Sizing) -> None:
        self._sizing = sizing
        self._nodes: OrderedDict[str, _Known] = OrderedDict()

    def resolved(self, info: NodeInfo) -> Node:
        """A node in the state that its pods leave, planned ones included."""
        known = self._nodes.get(info.name)
        # Most of the compared fields are the same objects.
        if known is not None and known.info == info:
            return known.node
        slots = known.slots if known is not None and known.info.report is info.report else {}
        node = self._sizing.resolved(info, slots)
        self._nodes[info.name] = _Known(info, node, slots)
        self._nodes.move_to_end(info.name)
        if len(self._nodes) > _REMEMBERED:
            self._nodes.popitem(last=False)
        return node
