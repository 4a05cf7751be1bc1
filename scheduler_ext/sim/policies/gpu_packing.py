"""GPU packing: GPUs in use before free ones, free GPUs of used nodes before those of free nodes."""

from __future__ import annotations

import numpy as np

from scheduler_ext.sim.placement_policy import Evaluation, Policy, Reference
from scheduler_ext.sim.tightest import tightest_slot
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind
from scheduler_ext.sim.world import NodesView

# Where each of the three tiers ends.
_BEST = 100
_USED_NODE = 50
_FREE_NODE = 33


class GpuPacking(Reference):
    """After MLaaS in the Wild (Weng et al., NSDI'22), as compared in USENIX ATC'23; integers of 0 to 100."""

    name = "gpu-packing"

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        """Score the nodes."""
        slot = tightest_slot(kind, nodes.room_milli)
        if not kind.gpus:
            return Evaluation(np.zeros(len(nodes)), slot)
        free_gpus = (nodes.room_milli == GPU_MILLI).sum(0)
        opened = max(_USED_NODE - kind.gpus, _FREE_NODE)
        score = np.full(len(nodes), float(opened))
        if kind.is_share:
            room = np.take_along_axis(nodes.room_milli, slot[None, :], axis=0)[0]
            in_use = _BEST - room * 100 // GPU_MILLI // 10
            score = np.where(room < GPU_MILLI, in_use, score)
        whole_node = free_gpus == nodes.gpus
        score[whole_node] = np.maximum(_FREE_NODE - free_gpus, free_gpus)[whole_node]
        return Evaluation(score, slot)


policy: type[Policy] = GpuPacking
