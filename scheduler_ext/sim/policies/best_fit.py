"""Best fit: the node that would have the least left of CPU and GPU."""

from __future__ import annotations

import numpy as np

from scheduler_ext.sim.placement_policy import Evaluation, Policy, Reference
from scheduler_ext.sim.tightest import tightest_slot
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import NodesView


class BestFit(Reference):
    """As compared in Weng et al., USENIX ATC'23: what is left of each resource over the largest node's, half
    and half, as an integer of 0 to 100."""

    name = "best-fit"

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        """Score the nodes."""
        cpu_left = (nodes.cpu_free - kind.cpu_milli) / self._largest_cpu_milli
        gpu_left = (nodes.room_milli.sum(0) - kind.demand_milli) / self._largest_gpu_milli
        score = np.floor((1.0 - 0.5 * cpu_left - 0.5 * gpu_left) * 100.0)
        return Evaluation(score, tightest_slot(kind, nodes.room_milli))


policy: type[Policy] = BestFit
