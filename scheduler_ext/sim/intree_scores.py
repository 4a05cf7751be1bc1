"""kube-scheduler's own scores that look at resources, by the names of its configuration: 0 to 100 each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scheduler_ext.sim.requested_parts import balance_percent, free_percent
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import Longs, NodesView


def _least_allocated(kind: PodKind, nodes: NodesView) -> Longs:
    # Its default resources are CPU and memory.
    score: Longs = free_percent(kind, nodes)[:2].sum(axis=0) // 2
    return score


INTREE_SCORES: Mapping[str, Callable[[PodKind, NodesView], Longs]] = {
    "NodeResourcesFit": _least_allocated,
    "NodeResourcesBalancedAllocation": balance_percent,
}
