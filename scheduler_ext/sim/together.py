"""Pods of a trace placed together: places are tried on the simulated cluster and taken back."""

import time
from collections.abc import Collection, Sequence

import numpy as np

from scheduler_ext.core.planning.joint import choose
from scheduler_ext.core.planning.placing import Place
from scheduler_ext.sim.scheduler import Placement, Scheduler
from scheduler_ext.sim.trace_workload import PodKind, TracePod
from scheduler_ext.sim.world import World


class TriedPlaces:
    """A world in which a scheduler tries places for pods of a trace; a `Placing`."""

    def __init__(self, scheduler: Scheduler, world: World) -> None:
        self._scheduler = scheduler
        self._world = world
        self._number = {name: number for number, name in enumerate(world.cluster.names)}
        self._put: list[tuple[PodKind, Placement]] = []
        # By the pod, the node and the rooms of its GPUs, as a policy may choose by chance or by all nodes.
        self._placement: dict[tuple[PodKind, int, bytes], Placement] = {}

    def best(self, ask: TracePod, among: Collection[str] | None = None) -> Place | None:
        """The place that the policy chooses now."""
        only = None
        if among is not None:
            only = np.zeros(len(self._number), np.bool_)
            only[[self._number[name] for name in among]] = True
        found = self._scheduler.best(ask.kind, only)
        return None if found is None else Place(self._world.cluster.names[found[0].node], found[1])

    def put(self, ask: TracePod, node: str) -> None:
        """The pod is on a node that takes it, on the GPUs that the policy chose there at first."""
        number = self._number[node]
        key = ask.kind, number, self._world.room_milli[:, number].tobytes()
        placement = self._placement.get(key)
        if placement is None:
            placement = self._placement[key] = self._scheduler.at(ask.kind, number)
        self._world.place(ask.kind, placement.node, placement.slots)
        self._put.append((ask.kind, placement))

    def mark(self) -> int:
        """The number of pods that are put."""
        return len(self._put)

    def rollback(self, mark: int) -> None:
        """Take back the pods that were put since."""
        while len(self._put) > mark:
            kind, placement = self._put.pop()
            self._world.release(kind, placement.node, placement.slots)

    def number(self, node: str) -> int:
        """The index of a node in the world."""
        return self._number[node]

    def take_back(self) -> list[tuple[PodKind, Placement]]:
        """Take back all pods; their places, in the order in which they were put."""
        put = list(self._put)
        self.rollback(0)
        self._placement.clear()
        return put


class Batches:
    """Decides pods together without changing the world, as `Scheduler` decides one."""

    def __init__(self, scheduler: Scheduler, world: World) -> None:
        self._scheduler = scheduler
        self._tried = TriedPlaces(scheduler, world)

    def choose(self, pods: Sequence[TracePod]) -> list[Placement | None]:
        """The place of each pod, in their order; None if it finds none beside the others."""
        if len(pods) == 1:
            return [self._scheduler.choose(pods[0].kind)]
        began = time.perf_counter()
        places = choose(pods, self._tried)
        found: dict[tuple[PodKind, int], list[Placement]] = {}
        for kind, placement in self._tried.take_back():
            found.setdefault((kind, placement.node), []).append(placement)
        # Equal pods on one node are placed alike, so that each may have the GPUs of another.
        placements = [
            None if place is None else found[pod.kind, self._tried.number(place.node)].pop(0)
            for pod, place in zip(pods, places, strict=True)
        ]
        took_s = time.perf_counter() - began
        self._scheduler.latencies_s += [took_s / len(pods)] * len(pods)
        return placements
