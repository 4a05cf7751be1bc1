"""The running pods, and preemption: the cheapest set of victims of lower priority on one node. The search is
that of kube-scheduler (pkg/scheduler/framework/preemption): remove all lower pods of a node, add back the
pods that may stay, the highest priority first, and choose the cheapest set of the examined nodes. The cost
differs. After the highest victim priority, kube-scheduler compares the sum of priorities, the number of pods
and their start times, and adds back equal pods by start time. Here the cost is the demand of the victims and
their number, and the pods with the largest demand are added back first, since a run reports evicted demand.
There are no disruption budgets."""

import heapq
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np

from scheduler_ext.sim.scheduler import Placement
from scheduler_ext.sim.trace_workload import PodKind, TracePod
from scheduler_ext.sim.world import World

# The compared nodes with victims, by kube-scheduler's defaults (DefaultPreemptionArgs).
_LEAST_CANDIDATES = 100
_CANDIDATES_PERCENT = 10


@dataclass(frozen=True, slots=True)
class TraceResident:
    """A running pod with its number and its place."""

    number: int
    pod: TracePod
    placement: Placement


class OnNodes(Protocol):
    """The running pods by node."""

    def on(self, node: int) -> Collection[TraceResident]:
        """The pods on a node."""


class Residents:
    """The running pods of a world; entering and leaving changes the world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._by_node: dict[int, dict[int, TraceResident]] = {}
        self._ends: list[tuple[float, int, int]] = []
        self._next = 0

    def on(self, node: int) -> Collection[TraceResident]:
        """The pods on a node, in order of arrival."""
        return self._by_node.get(node, {}).values()

    def enter(self, pod: TracePod, placement: Placement, until: float) -> TraceResident:
        """A pod begins to run."""
        self._world.place(pod.kind, placement.node, placement.slots)
        resident = TraceResident(self._next, pod, placement)
        self._next += 1
        self._by_node.setdefault(placement.node, {})[resident.number] = resident
        heapq.heappush(self._ends, (until, resident.number, placement.node))
        return resident

    def leave(self, resident: TraceResident) -> None:
        """A pod ends, at its time or before."""
        del self._by_node[resident.placement.node][resident.number]
        self._world.release(resident.pod.kind, resident.placement.node, resident.placement.slots)

    def next_end(self, until: float) -> tuple[float, TraceResident] | None:
        """The next pod whose time ends, with that time; None if no other one ends up to `until`. It leaves
        when the caller lets it."""
        while self._ends and self._ends[0][0] <= until:
            ends, number, node = heapq.heappop(self._ends)
            resident = self._by_node[node].get(number)
            if resident is not None:
                return ends, resident
        return None


class SimulatedPreemption:
    """Finds victims in a world, without evicting them."""

    def __init__(self, world: World, residents: OnNodes, seed: int) -> None:
        self._world = world
        self._residents = residents
        self._random = random.Random(f"preemption {seed}")

    def victims(self, pod: TracePod) -> Sequence[TraceResident]:
        """The victims; empty if no eviction of lower priorities makes room."""
        cluster, kind = self._world.cluster, pod.kind
        able = (
            (cluster.cpu_milli >= kind.cpu_milli)
            & (cluster.memory_mib >= kind.memory_mib)
            & (cluster.gpus >= kind.gpus)
            & cluster.admits(kind.models)
        )
        nodes = np.flatnonzero(able).tolist()
        wanted = max(len(cluster) * _CANDIDATES_PERCENT // 100, _LEAST_CANDIDATES)
        start = self._random.randrange(len(nodes)) if nodes else 0
        found = filter(None, (self._victims_on(node, pod) for node in nodes[start:] + nodes[:start]))
        return min(islice(found, wanted), key=_cost, default=[])

    def _victims_on(self, node: int, pod: TracePod) -> list[TraceResident]:
        lower = [resident for resident in self._residents.on(node) if resident.pod.priority < pod.priority]
        if not lower:
            return []
        left = _Left(self._world, node)
        for resident in lower:
            left.take(resident, -1)
        if not left.fits(pod.kind):
            return []
        lower.sort(key=lambda resident: (-resident.pod.priority, -resident.pod.kind.demand_milli))
        victims = []
        for resident in lower:
            left.take(resident, 1)
            if not left.fits(pod.kind):
                left.take(resident, -1)
                victims.append(resident)
        return victims


class _Left:
    """The free resources of one node during the search."""

    def __init__(self, world: World, node: int) -> None:
        self._cpu_milli = int(world.cpu_free[node])
        self._memory_mib = int(world.memory_free[node])
        self._room_milli: list[int] = world.room_milli[:, node].tolist()

    def take(self, resident: TraceResident, sign: int) -> None:
        kind = resident.pod.kind
        self._cpu_milli -= sign * kind.cpu_milli
        self._memory_mib -= sign * kind.memory_mib
        for slot in resident.placement.slots:
            self._room_milli[slot] -= sign * kind.gpu_milli

    def fits(self, kind: PodKind) -> bool:
        if self._cpu_milli < kind.cpu_milli or self._memory_mib < kind.memory_mib:
            return False
        return sum(room >= kind.gpu_milli for room in self._room_milli) >= kind.gpus


def _cost(victims: Sequence[TraceResident]) -> tuple[int, int, int]:
    """Compared in this order: the highest priority, the demand and the number of the victims."""
    return (
        max(victim.pod.priority for victim in victims),
        sum(victim.pod.kind.demand_milli for victim in victims),
        len(victims),
    )
