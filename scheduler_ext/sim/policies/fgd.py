"""FGD: the node and the GPU with the least growth of fragmentation, and this measure, by tables.
Fragmentation is the idle GPUs that pods of a workload cannot use (Weng et al., "Beware of Fragmentation",
USENIX ATC'23): for a class of pods, all idle GPUs of a node are fragmented if the node lacks CPU, the model,
or enough GPUs with room; otherwise those with too little room are. The fragmentation of a node is the mean
over the classes, by frequency."""

import numpy as np

from scheduler_ext.core.forecast.forecast import USUAL_PART
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.sim.placement_policy import Evaluation, Policy, Target
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind, admits, model_of
from scheduler_ext.sim.world import Cluster, Longs, NodesView

# The paper uses the most frequent classes that make up this part of the workload.
TARGET_PART = USUAL_PART
# The tables have a row of eight kilobytes for each amount of CPU in requests.
_MOST_AMOUNTS = 256
# A difference of zero must not fall to the next lower integer by rounding.
_ROUNDING = 1e-9


class FragmentationMeasure:
    """The measure for one workload on one cluster's models. A node's row stands for the classes that fit its
    model and its free CPU. For a row, a class of up to one GPU counts each GPU by itself; a class of several
    counts the whole node, less its free GPUs if they suffice. So a node's fragmentation is a sum over its
    GPUs of `_idle[row, room]` less `_usable[row, free GPUs]`."""

    def __init__(self, cluster: Cluster, workload: Workload) -> None:
        """Classes with several shares or MIG instances are no part of the measure."""
        asking = {task: part for task, part in workload.parts.items() if task.gpus or task.shares_mib}
        amounts = sorted({task.cpu_milli for task in asking}, reverse=True)
        # With very many amounts, some count as the next larger one; the published traces have up to 41.
        every = max(1, -(-len(amounts) // _MOST_AMOUNTS))
        self._thresholds = np.array(amounts[::every][::-1], np.int64)
        self._levels = len(self._thresholds) + 1
        rows = len(cluster.models) * self._levels
        depth = int(cluster.gpus.max(initial=1))
        # For a class that fits on no node, or requests no GPU, all idle GPUs count.
        eligible_part = np.zeros(rows)
        too_small = np.zeros((rows, GPU_MILLI + 1))
        usable = np.zeros((rows, depth + 1))
        for task, part in asking.items():
            admitted = [admits(task.models, model_of(model)) for model in cluster.models]
            met = np.arange(self._levels) > np.searchsorted(self._thresholds, task.cpu_milli)
            eligible = np.flatnonzero(np.logical_and.outer(admitted, met))
            if task.gpus > 1:
                free = np.arange(depth + 1)
                # All idle GPUs count, except the free ones.
                usable[eligible] += part * GPU_MILLI * np.where(free >= task.gpus, free, 0)
            else:
                eligible_part[eligible] += part
                too_small[eligible, GPU_MILLI if task.gpus else task.shares_mib[0]] += part
        # A room is too small for every class with a larger request.
        more = too_small.sum(1, keepdims=True) - np.cumsum(too_small, axis=1)
        parts = sum(workload.parts.values()) - eligible_part[:, None] + more
        self._idle: Floats = (parts * np.arange(GPU_MILLI + 1)).ravel()
        self._usable: Floats = usable.ravel()
        self._depth = depth + 1

    def _row(self, nodes: NodesView, cpu_milli: int) -> Longs:
        """The row of each node after this CPU is taken, `[node]`."""
        level = np.searchsorted(self._thresholds, nodes.cpu_free - cpu_milli, side="right")
        rows: Longs = nodes.model.astype(np.int64) * self._levels + level
        return rows

    def of(self, nodes: NodesView) -> Floats:
        """The fragmentation in thousandths of a GPU, `[node]`."""
        row = self._row(nodes, 0)
        idle = self._idle.take(row * (GPU_MILLI + 1) + nodes.room_milli).sum(0)
        free = (nodes.room_milli == GPU_MILLI).sum(0)
        fragmented: Floats = idle - self._usable.take(row * self._depth + free)
        return fragmented

    def after(self, kind: PodKind, nodes: NodesView) -> Floats:
        """The fragmentation with the pod, for nodes that have the GPUs. `[slot, node]` by the GPU of a
        share, inf without room; otherwise `[1, node]`."""
        row = self._row(nodes, kind.cpu_milli)
        first = row * (GPU_MILLI + 1)
        idle = self._idle.take(first + nodes.room_milli)
        whole = nodes.room_milli == GPU_MILLI
        free = whole.sum(0)
        usable = row * self._depth + free
        if not kind.is_share:
            taken = kind.gpus * self._idle.take(first + GPU_MILLI) if kind.gpus else 0.0
            left: Floats = idle.sum(0) - taken - self._usable.take(usable - kind.gpus)
            return left[None, :]
        remaining = nodes.room_milli - kind.gpu_milli
        # A negative room would point into another row; its value is not used.
        changed = self._idle.take(first + np.maximum(remaining, 0)) - idle
        result: Floats = idle.sum(0) + changed - self._usable.take(usable - whole)
        result[remaining < 0] = np.inf
        return result


class Fgd(Policy):
    """The published score: the decrease in GPUs through a sigmoid, as an integer of 0 to 100."""

    name = "fgd"
    published_ties = "first"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._cluster = target.cluster
        self.retarget(target.workload)

    def retarget(self, workload: Workload) -> None:
        """Expect another workload."""
        self._fragmentation = FragmentationMeasure(self._cluster, workload.top(TARGET_PART))

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        """Score the nodes."""
        after = self._fragmentation.after(kind, nodes)
        decrease = (self._fragmentation.of(nodes) - after) / GPU_MILLI
        quantised = np.floor(100.0 / (1.0 + np.exp(-decrease)) + _ROUNDING)
        # Without room for a share, the decrease is -inf, and the score would be 0 as for a bad GPU.
        quantised[np.isneginf(decrease)] = -np.inf
        # Of a node's equal GPUs the first.
        slot = quantised.argmax(axis=0)
        score = quantised[slot, np.arange(len(nodes))]
        return Evaluation(score, slot.astype(np.int32))
