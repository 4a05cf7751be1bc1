"""MostAllocated: the node that would have the smallest part free, kube-scheduler's way to pack."""

from __future__ import annotations

import numpy as np

from scheduler_ext.sim.placement_policy import Evaluation, Policy, Reference
from scheduler_ext.sim.requested_parts import requested_percent
from scheduler_ext.sim.tightest import tightest_slot
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import NodesView


class MostAllocated(Reference):
    """NodeResourcesFit with the strategy MostAllocated over CPU, memory and GPUs, of equal weights."""

    name = "most-allocated"

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        """Score the nodes."""
        percent = requested_percent(kind, nodes)
        score = percent.sum(axis=0) // len(percent)
        return Evaluation(score.astype(np.float64), tightest_slot(kind, nodes.room_milli))


policy: type[Policy] = MostAllocated
