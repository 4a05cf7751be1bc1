"""Dot product: the node whose free resources are aligned the least with what is asked."""

from __future__ import annotations

import numpy as np

from scheduler_ext.sim.placement_policy import Evaluation, Policy, Reference
from scheduler_ext.sim.tightest import tightest_slot
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import NodesView


class DotProduct(Reference):
    """After Tetris (Grandl et al., SIGCOMM'14), as compared in Weng et al., USENIX ATC'23: the smaller the
    product of request and free resources, each over the largest node's, the better; integers of 0 to 100."""

    name = "dot-product"

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        """Score the nodes."""
        cpu = nodes.cpu_free * (kind.cpu_milli / self._largest_cpu_milli**2)
        gpu = nodes.room_milli.sum(0) * (kind.demand_milli / self._largest_gpu_milli**2)
        score = np.floor((1.0 - (cpu + gpu) / 2.0) * 100.0)
        return Evaluation(score, tightest_slot(kind, nodes.room_milli))


policy: type[Policy] = DotProduct
