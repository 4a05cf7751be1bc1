"""The requested and the free part of a node, by resource, and the scores that kube-scheduler makes of them.

Source: kube-scheduler 1.36, pkg/scheduler/framework/plugins/noderesources: integers of 0 to 100 per resource,
and an extended resource counts only where the pod asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind
from scheduler_ext.sim.world import Longs, NodesView


def balance_percent(kind: PodKind, nodes: NodesView) -> Longs:
    """The gain in balance between the requested parts of CPU and memory, ``[node]``: 75 is no change, 50 to
    100."""
    before, after = _balance(PodKind(0, 0), nodes), _balance(kind, nodes)
    balance: Longs = 50 + (50 + after - before) // 2
    return balance


def _balance(kind: PodKind, nodes: NodesView) -> Longs:
    cpu, memory = (
        np.minimum(1.0 - left / np.maximum(total, 1), 1.0) for left, total in left_and_total(kind, nodes)[:2]
    )
    # The standard deviation of two is half their distance.
    balance: Longs = ((1.0 - np.abs(cpu - memory) / 2.0) * 100.0).astype(np.int64)
    return balance


def left_and_total(kind: PodKind, nodes: NodesView) -> list[tuple[Longs, Longs]]:
    """What is left with the pod, and the total, ``[node]`` each: of CPU, memory, and GPUs if requested."""
    rows = [
        (nodes.cpu_free - kind.cpu_milli, nodes.cpu_milli),
        (nodes.memory_free - kind.memory_mib, nodes.memory_mib),
    ]
    if kind.gpus:
        total = nodes.gpus.astype(np.int64) * GPU_MILLI
        rows.append((nodes.room_milli.sum(0, dtype=np.int64) - kind.demand_milli, total))
    return rows


def percent_of(part: Longs, total: Longs) -> Longs:
    """The part of the total; 0 without any."""
    percent: Longs = np.maximum(part, 0) * 100 // np.maximum(total, 1)
    return percent


def _least_allocated(kind: PodKind, nodes: NodesView) -> Longs:
    # The default resources are CPU and memory.
    cpu, memory = (percent_of(left, total) for left, total in left_and_total(kind, nodes)[:2])
    score: Longs = (cpu + memory) // 2
    return score


# By the names of kube-scheduler's configuration, 0 to 100 each.
INTREE_SCORES: Mapping[str, Callable[[PodKind, NodesView], Longs]] = {
    "NodeResourcesFit": _least_allocated,
    "NodeResourcesBalancedAllocation": balance_percent,
}
