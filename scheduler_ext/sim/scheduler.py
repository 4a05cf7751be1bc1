"""A miniature kube-scheduler: the nodes that fit a pod, their scores, and the choice among equals. Its own
scores come from kube-scheduler 1.36, pkg/scheduler/framework/plugins/noderesources: integers of 0 to 100 per
resource, and an extended resource counts only if the pod asks for it."""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

import numpy as np

from scheduler_ext.core.cycle.cycle import TOTAL_DECIMALS, points
from scheduler_ext.core.node.columns import Bools, Floats, Ints
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.sim.placement_policy import PUBLISHED_TIES, Policy
from scheduler_ext.sim.sampling import Sampling
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind
from scheduler_ext.sim.world import Indexes, Longs, NodesView, World

TIES = (PUBLISHED_TIES, "random", "first")
NODE_ORDERS = ("drawn", "model")
# kube-scheduler scores nodes from 0 to 100, and multiplies the 0 to 10 of an extender.
_EXTENDER_POINT = 10.0


def left_and_total(kind: PodKind, nodes: NodesView) -> list[tuple[Longs, Longs]]:
    """What is left with the pod, and the total, `[node]` each: of CPU, memory, and GPUs if requested."""
    cluster = nodes.world.cluster
    rows = [
        (nodes.cpu_free - kind.cpu_milli, nodes.part(cluster.cpu_milli)),
        (nodes.memory_free - kind.memory_mib, nodes.part(cluster.memory_mib)),
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


def _balance_gain(kind: PodKind, nodes: NodesView) -> Longs:
    """How the pod changes the balance of CPU and memory: 50 (worse) to 100 (better), 75 is unchanged."""
    before, after = _balance(PodKind(0, 0), nodes), _balance(kind, nodes)
    gain: Longs = 50 + (50 + after - before) // 2
    return gain


def _balance(kind: PodKind, nodes: NodesView) -> Longs:
    cpu, memory = (
        np.minimum(1.0 - left / np.maximum(total, 1), 1.0) for left, total in left_and_total(kind, nodes)[:2]
    )
    # The standard deviation of two is half their distance.
    balance: Longs = ((1.0 - np.abs(cpu - memory) / 2.0) * 100.0).astype(np.int64)
    return balance


# By the names of kube-scheduler's configuration, 0 to 100 each, `[node]`.
INTREE_SCORES: Mapping[str, Callable[[PodKind, NodesView], Longs]] = {
    "NodeResourcesFit": _least_allocated,
    "NodeResourcesBalancedAllocation": _balance_gain,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of kube-scheduler. `ties` among the best nodes: any of them ("random", as in
    kube-scheduler), the first of an order drawn once ("first"), or the choice with which each policy was
    published ("published"). `points` maps scores to 0 to 10, the range of an extender. `sampled_percent` of
    the nodes suffice, as in Sampling; 100 is all. They are examined in the order of the world ("drawn"), or
    those of one model beside each other ("model"). With `affinity`, the models that a pod names are its node
    affinity, which kube-scheduler knows. `intree`: weights of kube-scheduler's own scores, by name."""

    ties: str = PUBLISHED_TIES
    points: bool = False
    sampled_percent: int = 100
    node_order: str = "drawn"
    affinity: bool = False
    intree: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placement:
    """The place of a pod: a node's index and the GPUs there."""

    node: int
    slots: tuple[int, ...]


class _KindScores:
    """The scores of all nodes for one kind of pod at a tick; -inf does not fit. `passes` are the nodes that
    kube-scheduler's own filters let pass."""

    def __init__(self, admits: Bools) -> None:
        count = len(admits)
        self.admits = admits
        self.passes: Bools = np.zeros(count, np.bool_)
        self.tick = -1
        self.score: Floats = np.full(count, -np.inf)
        self.slot: Ints = np.zeros(count, np.int32)
        self.intree: Floats | None = None


class Scheduler:
    """Decides without changing the world, and measures each decision in `latencies_s`."""

    # Kept scores, kinds of pods times nodes, of thirteen bytes each.
    most_kept: ClassVar[int] = 2**24

    def __init__(self, world: World, policy: Policy, settings: Settings, seed: int = 0) -> None:
        """With `first` ties, the order is that of the nodes in the world."""
        self._world = world
        self._policy = policy
        self._settings = settings
        self.ties = policy.ties_under(settings.ties)
        self._first = self.ties == "first"
        self._points = bool(settings.intree) or settings.points
        self._random = random.Random(f"ties {seed}")
        self._scored: dict[tuple[int, PodKind], _KindScores] = {}
        self._admits = cache(world.cluster.admits)
        self._sampling: Sampling | None = None
        if settings.sampled_percent < 100:
            order = np.arange(len(world.cluster))
            if settings.node_order == "model":
                order = np.argsort(world.cluster.model, kind="stable")
            self._sampling = Sampling(order, settings.sampled_percent)
        # Pods that no examined node took, while others would have.
        self.false_refusals = 0
        self.latencies_s: list[float] = []

    def retarget(self, workload: Workload) -> None:
        """Expect another workload; all scores for the last one are dropped."""
        self._policy.retarget(workload)
        self._scored.clear()

    def choose(self, kind: PodKind, *, everywhere: bool = False) -> Placement | None:
        """The place for the pod now; None if no examined node takes it. `everywhere`: among all nodes."""
        began = time.perf_counter()
        scored, examined = self._up_to_date(kind), None
        if self._sampling is not None and not everywhere:
            examined = self._sampling.examined(scored.passes)
        found = self._best(kind, scored, examined)
        self.latencies_s.append(time.perf_counter() - began)
        if found is not None:
            return found[0]
        self.false_refusals += examined is not None and self.fits(kind)
        return None

    def fits(self, kind: PodKind) -> bool:
        """Whether any node takes the pod now, examined or not."""
        return bool((self._totals(kind, self._up_to_date(kind)) > -np.inf).any())

    def best(self, kind: PodKind, only: Bools | None = None) -> tuple[Placement, float] | None:
        """The place for the pod now and its total; `only` on these nodes, `[node]`, None for all."""
        return self._best(kind, self._up_to_date(kind), only)

    def _totals(self, kind: PodKind, scored: _KindScores) -> Floats:
        if (of_cluster := self._policy.of_cluster(kind, self._world)) is None:
            return scored.score
        # Rounded as in the core, so that equal totals stay equal.
        totals: Floats = np.round(scored.score + of_cluster, TOTAL_DECIMALS)
        return totals

    def _best(self, kind: PodKind, scored: _KindScores, only: Bools | None) -> tuple[Placement, float] | None:
        totals = self._totals(kind, scored)
        if only is not None:
            totals = np.where(only, totals, -np.inf)
        resolution = self._policy.resolution(kind, self._world)
        if self._points:
            totals, resolution = self._as_points(totals, scored, resolution), 0.0
        best = int(totals.argmax())
        if totals[best] == -np.inf:
            return None
        if resolution or not self._first:
            below = totals[best] - totals
            equal = np.flatnonzero(below < resolution if resolution else below == 0.0)
            best = int(equal[0 if self._first else self._random.randrange(len(equal))])
        return self._placed(kind, best, scored), float(totals[best])

    def at(self, kind: PodKind, node: int) -> Placement:
        """The place of the pod on a node that takes it."""
        return self._placed(kind, node, self._up_to_date(kind))

    def _placed(self, kind: PodKind, node: int, scored: _KindScores) -> Placement:
        if not kind.gpus:
            return Placement(node, ())
        if kind.is_share:
            return Placement(node, (int(scored.slot[node]),))
        return Placement(node, self._world.whole_gpus(node, kind.gpus))

    def _up_to_date(self, kind: PodKind) -> _KindScores:
        key = self._policy.phase(self._world), kind
        scored = self._scored.get(key)
        if scored is None:
            if len(self._scored) * len(self._world.cluster) > self.most_kept:
                self._scored.clear()
            scored = self._scored[key] = _KindScores(self._admits(kind.models))
        # Before the first evaluation, all nodes have changed.
        changed = np.arange(len(scored.score)) if scored.tick < 0 else self._world.changed_since(scored.tick)
        if len(changed):
            self._evaluate(kind, scored, changed)
        scored.tick = self._world.tick
        return scored

    def _evaluate(self, kind: PodKind, scored: _KindScores, nodes: Indexes) -> None:
        scored.score[nodes] = -np.inf
        scored.passes[nodes], fits = self._fit(kind, scored.admits[nodes], nodes)
        fitting = nodes[fits]
        if not len(fitting):
            return
        view = NodesView(self._world, None if len(fitting) == len(scored.score) else fitting)
        evaluation = self._policy.evaluate(kind, view)
        scored.score[fitting] = evaluation.score
        scored.slot[fitting] = evaluation.slot
        if self._settings.intree:
            if scored.intree is None:
                scored.intree = np.zeros(len(scored.score))
            scored.intree[fitting] = sum(
                weight * INTREE_SCORES[name](kind, view) for name, weight in self._settings.intree.items()
            )

    def _fit(self, kind: PodKind, admits: Bools, nodes: Indexes) -> tuple[Bools, Bools]:
        """Whether kube-scheduler's own filters let the pod pass, which know the amounts of a node, and
        whether it fits, on single GPUs and of the models that it names."""
        world = self._world
        passes: Bools = (world.cpu_free[nodes] >= kind.cpu_milli) & (
            world.memory_free[nodes] >= kind.memory_mib
        )
        if not kind.gpus:
            return passes, passes
        rooms = world.room_milli.take(nodes, axis=1)
        fits: Bools = passes & admits & ((rooms >= kind.gpu_milli).sum(0) >= kind.gpus)
        passes &= rooms.sum(0) >= kind.demand_milli
        if self._settings.affinity:
            passes &= admits
        return passes, fits

    def _as_points(self, score: Floats, scored: _KindScores, resolution: float) -> Floats:
        """The scores as an extender's 0 to 10, and kube-scheduler's own beside them if it has a say."""
        mapped = points(score, resolution).astype(np.float64) * _EXTENDER_POINT
        if scored.intree is not None:
            mapped += scored.intree
        mapped[score == -np.inf] = -np.inf
        return mapped
