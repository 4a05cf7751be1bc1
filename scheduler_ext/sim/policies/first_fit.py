"""First fit: the first node that fits, and there the tightest GPU."""

from __future__ import annotations

import numpy as np

from scheduler_ext.sim.placement_policy import Evaluation, Policy, Reference
from scheduler_ext.sim.tightest import tightest_slot
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import NodesView


class FirstFit(Reference):
    """All nodes are equal, and the first of equals wins."""

    name = "first-fit"
    ties: str | None = "first"

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        """Score the nodes."""
        return Evaluation(np.zeros(len(nodes)), tightest_slot(kind, nodes.room_milli))


policy: type[Policy] = FirstFit
