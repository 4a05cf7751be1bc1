"""Random: any node that fits, and there any GPU."""

from __future__ import annotations

import numpy as np

from scheduler_ext.sim.placement_policy import Evaluation, Policy, Reference, Target
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import NodesView


class Random(Reference):
    """All nodes are equal, and any of equals may win."""

    name = "random"
    ties: str | None = "random"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._random = np.random.default_rng([target.seed, 1])

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        """Score the nodes."""
        # A node's GPU may stay drawn until the node changes: it is taken once at most.
        drawn = self._random.random(nodes.room_milli.shape)
        drawn[nodes.room_milli < kind.gpu_milli] = -1.0
        return Evaluation(np.zeros(len(nodes)), drawn.argmax(axis=0).astype(np.int32))


policy: type[Policy] = Random
