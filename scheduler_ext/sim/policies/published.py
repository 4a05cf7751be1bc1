"""The published policies that score a node from its own resources, and kube-scheduler's two ways to pack.
Weng et al. (USENIX ATC'23) compare all but these two and first fit: by integers of 0 to 100, of amounts over
those of the largest node, and by the first of equal nodes in an order drawn by the seed."""

import numpy as np

from scheduler_ext.core.node.columns import Ints
from scheduler_ext.sim.placement_policy import Evaluation, Policy, Target
from scheduler_ext.sim.scheduler import left_and_total, percent_of
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind
from scheduler_ext.sim.world import NodesView

_FIRST = "first"
# GPU clustering, each of its four tiers: only equal pods, equal pods among others, no pods, only others.
_TIER = 25
# GPU packing, the upper end of each of its three tiers.
_BEST = 100
_USED_NODE = 50
_FREE_NODE = 33


def tightest_slot(kind: PodKind, room_milli: Ints) -> Ints:
    """The first of the fullest GPUs that hold the share, of `[slot, node]` rooms, as `[node]`."""
    if not kind.is_share:
        return np.zeros(room_milli.shape[1], np.int32)
    # A GPU without room counts as wider than any GPU.
    room = np.where(room_milli >= kind.gpu_milli, room_milli, 2 * GPU_MILLI)
    slots: Ints = room.argmin(axis=0).astype(np.int32)
    return slots


class FirstFit(Policy):
    """The first node that fits, and there the tightest GPU."""

    name = "first-fit"
    published_ties = _FIRST
    fixed_ties = True

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        return Evaluation(np.zeros(len(nodes)), tightest_slot(kind, nodes.room_milli))


class Random(Policy):
    """Any node that fits, and there any GPU."""

    name = "random"
    fixed_ties = True

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._random = np.random.default_rng([target.seed, 1])

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        # A drawn GPU may stay until the node changes: it is taken once at most.
        drawn = self._random.random(nodes.room_milli.shape)
        drawn[nodes.room_milli < kind.gpu_milli] = -1.0
        return Evaluation(np.zeros(len(nodes)), drawn.argmax(axis=0).astype(np.int32))


class BestFit(Policy):
    """The node with the least CPU and GPU left, half and half."""

    name = "best-fit"
    published_ties = _FIRST

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        cpu_left = (nodes.cpu_free - kind.cpu_milli) / self._largest_cpu_milli
        gpu_left = (nodes.room_milli.sum(0) - kind.demand_milli) / self._largest_gpu_milli
        score = np.floor((1.0 - 0.5 * cpu_left - 0.5 * gpu_left) * 100.0)
        return Evaluation(score, tightest_slot(kind, nodes.room_milli))


class DotProduct(Policy):
    """The smallest product of request and free resources, after Tetris (Grandl et al., SIGCOMM'14)."""

    name = "dot-product"
    published_ties = _FIRST

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        cpu = nodes.cpu_free * (kind.cpu_milli / self._largest_cpu_milli**2)
        gpu = nodes.room_milli.sum(0) * (kind.demand_milli / self._largest_gpu_milli**2)
        score = np.floor((1.0 - (cpu + gpu) / 2.0) * 100.0)
        return Evaluation(score, tightest_slot(kind, nodes.room_milli))


class GpuClustering(Policy):
    """Pods with the same number of GPUs share nodes, after Gandiva (Xiao et al., OSDI'18). Within a tier, the
    fuller node is better."""

    name = "gpu-clustering"
    published_ties = _FIRST

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        slot = tightest_slot(kind, nodes.room_milli)
        if not kind.gpus:
            return Evaluation(np.zeros(len(nodes)), slot)
        there = nodes.part(nodes.world.tasks) > 0
        alike = there[0 if kind.is_share else kind.gpus]
        kinds_there = there.sum(0)
        tier = np.where(alike, np.where(kinds_there == 1, 3, 2), np.where(kinds_there == 0, 1, 0))
        used = self._largest_gpu_milli - nodes.room_milli.sum(0)
        score = tier * _TIER + _TIER * used // self._largest_gpu_milli
        return Evaluation(score.astype(np.float64), slot)


class GpuPacking(Policy):
    """GPUs in use before free ones, and free GPUs of used nodes before those of free nodes. After MLaaS in
    the Wild (Weng et al., NSDI'22)."""

    name = "gpu-packing"
    published_ties = _FIRST

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
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


class LeastAllocated(Policy):
    """The largest free part of CPU, memory and GPUs: NodeResourcesFit by the default, LeastAllocated."""

    name = "least-allocated"
    most = False

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        parts = [
            percent_of(total - left if self.most else left, total)
            for left, total in left_and_total(kind, nodes)
        ]
        score = np.array(parts).sum(axis=0) // len(parts)
        return Evaluation(score.astype(np.float64), tightest_slot(kind, nodes.room_milli))


class MostAllocated(LeastAllocated):
    """The largest requested part: the same by the strategy MostAllocated."""

    name = "most-allocated"
    most = True
