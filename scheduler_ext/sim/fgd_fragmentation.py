"""How much idle GPU pods of a workload could not use: the fragmentation measure of FGD, by tables.

Weng et al., "Beware of Fragmentation" (USENIX ATC'23): for a class of pods, all that is idle on a node is
fragmented where the node lacks CPU, the right model, or GPUs with enough left; else the GPUs that have too
little left are. A node's fragmentation is the mean over the classes, by how often each comes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.forecast.forecast import USUAL_PART
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind, admits
from scheduler_ext.sim.world import Cluster, NodesView

# The paper looks at the commonest classes that make up so much of the workload.
TARGET_PART = USUAL_PART
# The tables have a row for each amount of CPU that pods ask; a row has eight kilobytes.
_MOST_AMOUNTS = 256

_Rows = npt.NDArray[np.int64]


class Fragmentation:
    """The measure for one workload on one cluster's models.

    A node's row tells which classes it is eligible for, by its model and by how many of the classes' CPU
    requests it still meets. For a row, a class of one GPU or less makes every GPU count by itself; a class of
    several makes the whole node count, less its free GPUs where they suffice. So a node's fragmentation is a
    sum over its GPUs of ``_idle[row, room]`` less ``_usable[row, free GPUs]``.
    """

    def __init__(self, cluster: Cluster, workload: Workload) -> None:
        """Classes that hold several shares or MIG instances are no part of the measure's protocol."""
        asking = {task: part for task, part in workload.parts.items() if task.gpus or task.shares_mib}
        amounts = sorted({task.cpu_milli for task in asking}, reverse=True)
        # Of very many amounts some count as the next larger one; the published traces have 41 at most.
        every = max(1, -(-len(amounts) // _MOST_AMOUNTS))
        self._thresholds = np.array(amounts[::every][::-1], np.int64)
        self._levels = len(self._thresholds) + 1
        rows = len(cluster.models) * self._levels
        depth = int(cluster.gpus.max(initial=1))
        # What fits nowhere makes everything idle count, and so do pods that ask no GPU.
        eligible_part = np.zeros(rows)
        too_small = np.zeros((rows, GPU_MILLI + 2))
        self._usable = np.zeros((rows, depth + 1))
        for task, part in asking.items():
            eligible = self._eligible(cluster, task)
            if task.gpus > 1:
                free = np.arange(depth + 1)
                # Not all idle counts then, but what the free GPUs hold does not.
                usable = part * GPU_MILLI * np.where(free >= task.gpus, free, 0)
                self._usable[eligible] += usable
            else:
                eligible_part[eligible] += part
                too_small[eligible, _milli(task)] += part
        # A room is too small for every class that asks more.
        more = too_small.sum(1, keepdims=True) - np.cumsum(too_small, axis=1)
        parts = sum(workload.parts.values()) - eligible_part[:, None] + more[:, : GPU_MILLI + 1]
        self._idle: Floats = (parts * np.arange(GPU_MILLI + 1)).ravel()
        self._usable_flat: Floats = self._usable.ravel()
        self._depth = depth + 1

    def _eligible(self, cluster: Cluster, task: TaskClass) -> _Rows:
        admitted = [admits(task.models, model) for model in cluster.models]
        met = np.arange(self._levels) > np.searchsorted(self._thresholds, task.cpu_milli)
        return np.flatnonzero(np.logical_and.outer(admitted, met))

    def _row(self, nodes: NodesView, cpu_milli: int) -> _Rows:
        """Each node's row once so much CPU is taken, ``[node]``."""
        level = np.searchsorted(self._thresholds, nodes.cpu_free - cpu_milli, side="right")
        rows: _Rows = nodes.model.astype(np.int64) * self._levels + level
        return rows

    def of(self, nodes: NodesView, cpu_milli: int = 0) -> Floats:
        """What is fragmented, in thousandths of a GPU, ``[node]``; once so much CPU is taken."""
        row = self._row(nodes, cpu_milli)
        idle = self._idle.take(row * (GPU_MILLI + 1) + nodes.room_milli).sum(0)
        free = (nodes.room_milli == GPU_MILLI).sum(0)
        fragmented: Floats = idle - self._usable_flat.take(row * self._depth + free)
        return fragmented

    def after(self, kind: PodKind, nodes: NodesView) -> Floats:
        """What would be fragmented with the pod: ``[slot, node]`` by the GPU of a share, inf where it has no
        room; else ``[1, node]``, for nodes that have the GPUs."""
        row = self._row(nodes, kind.cpu_milli)
        first = row * (GPU_MILLI + 1)
        idle = self._idle.take(first + nodes.room_milli)
        whole = nodes.room_milli == GPU_MILLI
        free = whole.sum(0)
        usable = row * self._depth + free
        if not kind.is_share:
            taken = kind.gpus * self._idle.take(first + GPU_MILLI) if kind.gpus else 0.0
            left: Floats = idle.sum(0) - taken - self._usable_flat.take(usable - kind.gpus)
            return left[None, :]
        remaining = nodes.room_milli - kind.gpu_milli
        # A room below zero would be looked up in another node's row; its value is not used.
        changed = self._idle.take(first + np.maximum(remaining, 0)) - idle
        result: Floats = idle.sum(0) + changed - self._usable_flat.take(usable - whole)
        result[remaining < 0] = np.inf
        return result


def _milli(task: TaskClass) -> int:
    return GPU_MILLI if task.gpus else min(task.shares_mib[0], GPU_MILLI + 1)
