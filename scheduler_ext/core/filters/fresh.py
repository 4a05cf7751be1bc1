"""Is there a recent report of the node's GPUs?"""

import numpy as np

from scheduler_ext.core.framework.criterion import Filter, View
from scheduler_ext.core.framework.refusal import MissKind, NearestMiss, Reason
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.node.unreported import cause, remedy
from scheduler_ext.core.request.request import GpuRequest

_SETTING = (
    "set `inventory.unreported: allow` in the extender's configuration, so that nodes without a fresh report "
    "take whole GPUs and MIG instances by their allocatable"
)


class FreshInventory(Filter):
    """Refuses nodes without a recent report. A node known only by its labels takes whole GPUs, and one that
    counts by its allocatable whole GPUs and MIG instances."""

    name = "fresh-inventory"
    reason = Reason(
        "node(s) had no fresh GPU inventory",
        "The node's GPUs have no recent report; a node known only by its labels takes whole GPUs only.",
        "Check that the node's agent runs and reports, or that the inventory file lists the node. With"
        " `inventory.unreported: allow` such nodes take whole GPUs and MIG instances by their allocatable.",
    )
    kind = MissKind.PASSING

    def passes(self, view: View) -> Bools:
        # ResourceSlices say what DRA hands out, with or without an agent.
        known = [columns.from_slices for _, columns in view.units]
        if known and view.request.shares is None:
            all_known: Bools = np.logical_and.reduce(known)
            return self._reported(view) | all_known
        return self._reported(view)

    def _reported(self, view: View) -> Bools:
        node, request = view.snapshot.node, view.request
        # Freshness does not matter for a node without any GPU: another filter refuses it.
        labels_only = node.estimated & (node.devices > 0)
        if request.shares is not None:
            return node.fresh & ~(labels_only | node.by_allocatable)
        if any(ask.profile is not None for ask in request.units):
            return node.fresh & ~(labels_only & ~node.by_allocatable)
        return node.fresh

    def miss(self, view: View, node: Node) -> NearestMiss:
        have = node.info.freshness if node.state.slots else "none"
        if have == "Fresh":
            have = "labels only"
        return NearestMiss(self.name, None, "Fresh report", have, "state")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        return f"{node.info.name} has no fresh report of its GPUs ({miss.have}): {cause(node.info)}"

    def for_operators(self, _miss: NearestMiss, node: Node, request: GpuRequest) -> str | None:
        info = node.info
        # Memory shares need a report, and the setting changes nothing for them.
        setting = None if info.by_allocatable or request.shares is not None else _SETTING
        ways = [way for way in (remedy(info), setting) if way is not None]
        return f"have an operator {', or '.join(ways)}" if ways else None
