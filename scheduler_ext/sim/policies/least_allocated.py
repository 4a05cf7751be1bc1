"""LeastAllocated: the node that would have the largest part free, kube-scheduler's default."""

from __future__ import annotations

import numpy as np

from scheduler_ext.sim.placement_policy import Evaluation, Policy, Reference
from scheduler_ext.sim.requested_parts import free_percent
from scheduler_ext.sim.tightest import tightest_slot
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import NodesView


class LeastAllocated(Reference):
    """NodeResourcesFit with the strategy LeastAllocated over CPU, memory and GPUs, of equal weights."""

    name = "least-allocated"

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        """Score the nodes."""
        percent = free_percent(kind, nodes)
        score = percent.sum(axis=0) // len(percent)
        return Evaluation(score.astype(np.float64), tightest_slot(kind, nodes.room_milli))


policy: type[Policy] = LeastAllocated
