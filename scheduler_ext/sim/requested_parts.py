"""How much of a node would be requested or free, by resource, as kube-scheduler counts it.

Source: kube-scheduler 1.36, pkg/scheduler/framework/plugins/noderesources: integers of 0 to 100 per resource,
and an extended resource counts only where the pod asks for it.
"""

from __future__ import annotations

import numpy as np

from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind
from scheduler_ext.sim.world import Longs, NodesView


def free_percent(kind: PodKind, nodes: NodesView) -> Longs:
    """What would stay free, ``[resource, node]``: CPU, memory, and GPUs where asked; none where there are
    none."""
    return np.array([_percent(left, total) for left, total in _left_and_total(kind, nodes)])


def requested_percent(kind: PodKind, nodes: NodesView) -> Longs:
    """What would be requested, ``[resource, node]``: CPU, memory, and GPUs where asked."""
    return np.array([_percent(total - left, total) for left, total in _left_and_total(kind, nodes)])


def balance_percent(kind: PodKind, nodes: NodesView) -> Longs:
    """How much more alike the requested parts of CPU and memory would become, ``[node]``: 75 where they stay
    as they are, 50 to 100."""
    before, after = _balance(PodKind(0, 0), nodes), _balance(kind, nodes)
    balance: Longs = 50 + (50 + after - before) // 2
    return balance


def _balance(kind: PodKind, nodes: NodesView) -> Longs:
    cpu, memory = (
        np.minimum(1.0 - left / np.maximum(total, 1), 1.0) for left, total in _left_and_total(kind, nodes)[:2]
    )
    # The standard deviation of two is half their distance.
    balance: Longs = ((1.0 - np.abs(cpu - memory) / 2.0) * 100.0).astype(np.int64)
    return balance


def _left_and_total(kind: PodKind, nodes: NodesView) -> list[tuple[Longs, Longs]]:
    rows = [
        (nodes.cpu_free - kind.cpu_milli, nodes.cpu_milli),
        (nodes.memory_free - kind.memory_mib, nodes.memory_mib),
    ]
    if kind.gpus:
        total = nodes.gpus.astype(np.int64) * GPU_MILLI
        rows.append((nodes.room_milli.sum(0, dtype=np.int64) - kind.demand_milli, total))
    return rows


def _percent(part: Longs, total: Longs) -> Longs:
    percent: Longs = np.maximum(part, 0) * 100 // np.maximum(total, 1)
    return percent
