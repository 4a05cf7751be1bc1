"""The running pods, by node and by end time."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from scheduler_ext.sim.scheduler import Placement
from scheduler_ext.sim.trace_workload import TracePod
from scheduler_ext.sim.world import World


@dataclass(frozen=True, slots=True)
class Resident:
    """A running pod with its number and its place."""

    number: int
    pod: TracePod
    placement: Placement


class Residents:
    """The running pods of a world; entering and leaving changes the world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._by_node: dict[int, dict[int, Resident]] = {}
        self._ends: list[tuple[float, int, int]] = []
        self._next = 0

    def on(self, node: int) -> Collection[Resident]:
        """The pods on a node, in order of arrival."""
        return self._by_node.get(node, {}).values()

    def enter(self, pod: TracePod, placement: Placement, until: float) -> Resident:
        """A pod begins to run."""
        self._world.place(pod.kind, placement.node, placement.slots)
        resident = Resident(self._next, pod, placement)
        self._next += 1
        self._by_node.setdefault(placement.node, {})[resident.number] = resident
        heapq.heappush(self._ends, (until, resident.number, placement.node))
        return resident

    def leave(self, resident: Resident) -> None:
        """A pod ends before its time."""
        del self._by_node[resident.placement.node][resident.number]
        self._world.release(resident.pod.kind, resident.placement.node, resident.placement.slots)

    def ending(self, until: float) -> Iterator[float]:
        """The end times of pods up to a time, in order; a pod leaves when the iteration goes on."""
        while self._ends and self._ends[0][0] <= until:
            ends, number, node = heapq.heappop(self._ends)
            resident = self._by_node[node].get(number)
            if resident is not None:
                yield ends
                self.leave(resident)
