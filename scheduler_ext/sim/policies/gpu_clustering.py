"""GPU clustering: pods that ask the same number of GPUs go to the same nodes."""

from __future__ import annotations

import numpy as np

from scheduler_ext.sim.placement_policy import Evaluation, Policy, Reference
from scheduler_ext.sim.tightest import tightest_slot
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import NodesView

# Each of the four tiers: only pods alike, pods alike among others, nobody, only others.
_TIER = 25


class GpuClustering(Reference):
    """After Gandiva (Xiao et al., OSDI'18), as compared in Weng et al., USENIX ATC'23: within a tier, the
    fuller node; integers of 0 to 100."""

    name = "gpu-clustering"

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        """Score the nodes."""
        slot = tightest_slot(kind, nodes.room_milli)
        if not kind.gpus:
            return Evaluation(np.zeros(len(nodes)), slot)
        there = nodes.tasks > 0
        alike = there[0 if kind.is_share else kind.gpus]
        kinds_there = there.sum(0)
        tier = np.where(alike, np.where(kinds_there == 1, 3, 2), np.where(kinds_there == 0, 1, 0))
        used = self._largest_gpu_milli - nodes.room_milli.sum(0)
        score = tier * _TIER + _TIER * used // self._largest_gpu_milli
        return Evaluation(score.astype(np.float64), slot)


policy: type[Policy] = GpuClustering
