"""FGD: the node and the GPU with the least growth of fragmentation."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.sim.fgd_fragmentation import TARGET_PART, Fragmentation
from scheduler_ext.sim.placement_policy import Evaluation, Policy, Reference, Target
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind
from scheduler_ext.sim.world import NodesView

# A difference of zero must not fall to the next lower integer by rounding.
_ROUNDING = 1e-9


class Fgd(Reference):
    """Fragmentation gradient descent as published (Weng et al., USENIX ATC'23): the decrease in GPUs through
    a sigmoid, as an integer of 0 to 100; the first of a node's equal GPUs."""

    name = "fgd"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._cluster = target.cluster
        self.retarget(target.workload)

    def retarget(self, workload: Workload) -> None:
        """Expect another workload."""
        self._fragmentation = Fragmentation(self._cluster, workload.top(TARGET_PART))

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        """Score the nodes."""
        after = self._fragmentation.after(kind, nodes)
        decrease = (self._fragmentation.of(nodes) - after) / GPU_MILLI
        quantised = np.floor(100.0 / (1.0 + np.exp(-decrease)) + _ROUNDING)
        # Without room for a share, the decrease is -inf, and the score would be 0 as for a bad GPU.
        quantised[np.isneginf(decrease)] = -np.inf
        slot = quantised.argmax(axis=0)
        score = quantised[slot, np.arange(len(nodes))]
        return Evaluation(score, slot.astype(np.int32))


policy: type[Policy] = Fgd
