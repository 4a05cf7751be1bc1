"""kube-scheduler's own scores that look at resources, by the names of its configuration: 0 to 100 each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from scheduler_ext.core.columns import Floats
from scheduler_ext.sim.requested_parts import balance_percent, free_percent
from scheduler_ext.sim.workload import PodKind
from scheduler_ext.sim.world import NodesView


def _least_allocated(kind: PodKind, nodes: NodesView) -> Floats:
    # Its default resources are CPU and memory.
    score: Floats = np.floor(free_percent(kind, nodes)[:2].mean(axis=0))
    return score


INTREE_SCORES: Mapping[str, Callable[[PodKind, NodesView], Floats]] = {
    "NodeResourcesFit": _least_allocated,
    "NodeResourcesBalancedAllocation": balance_percent,
}
