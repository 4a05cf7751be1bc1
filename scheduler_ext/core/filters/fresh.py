"""Is there a recent report of the node's GPUs?"""

import numpy as np

from scheduler_ext.core.framework.criterion import Filter, View
from scheduler_ext.core.framework.refusal import MissKind, NearestMiss, Reason
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node


class FreshInventory(Filter):
    """Refuses nodes without a recent report; a node known only by its labels takes whole GPUs only."""

    name = "fresh-inventory"
    reason = Reason(
        "node(s) had no fresh GPU inventory",
        "The node's GPUs have no recent report; a node known only by its labels takes whole GPUs only.",
        "Check that the node's agent runs and reports, or that the inventory file lists the node.",
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
        if request.shares is not None or any(ask.profile is not None for ask in request.units):
            # Freshness does not matter for a node without any GPU: another filter refuses it.
            return node.fresh & ~(node.estimated & (node.devices > 0))
        return node.fresh

    def miss(self, view: View, node: Node) -> NearestMiss:
        have = "labels only" if node.state.estimated and node.state.slots else node.info.freshness
        return NearestMiss(self.name, None, "Fresh report", have if node.state.slots else "none", "state")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        return f"{node.info.name} has no fresh report of its GPUs ({miss.have})"
