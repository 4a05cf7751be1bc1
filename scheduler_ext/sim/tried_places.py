"""Places that are tried on the simulated cluster and taken back."""

from collections.abc import Collection
from typing import Protocol

import numpy as np

from scheduler_ext.core.cycle.placing import BestNode
from scheduler_ext.sim.scheduler import Placement, Scheduler
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import World


class OfKind(Protocol):
    """A pod of a trace, or what stands for one."""

    @property
    def kind(self) -> PodKind: ...


class TriedPlaces:
    """A world in which a scheduler tries places for pods of a trace; a `Placing`."""

    def __init__(self, scheduler: Scheduler, world: World) -> None:
        self._scheduler = scheduler
        self._world = world
        self._number = {name: number for number, name in enumerate(world.cluster.names)}
        # Pods that came (1) and that left (-1), in this order.
        self._changes: list[tuple[PodKind, Placement, int]] = []
        # By the pod, the node and the rooms of its GPUs, as a policy may choose by chance or by all nodes.
        self._placement: dict[tuple[PodKind, int, bytes], Placement] = {}

    def best(self, ask: OfKind, among: Collection[str] | None = None) -> BestNode | None:
        """The place that the policy chooses now."""
        only = None
        if among is not None:
            only = np.zeros(len(self._number), np.bool_)
            only[[self._number[name] for name in among]] = True
        found = self._scheduler.best(ask.kind, only)
        return None if found is None else BestNode(self._world.cluster.names[found[0].node], found[1])

    def put(self, ask: OfKind, node: str) -> None:
        """The pod is on a node that takes it, on the GPUs that the policy chose there at first."""
        number = self._number[node]
        key = ask.kind, number, self._world.room_milli[:, number].tobytes()
        placement = self._placement.get(key)
        if placement is None:
            placement = self._placement[key] = self._scheduler.at(ask.kind, number)
        self._change(ask.kind, placement, 1)

    def mark(self) -> int:
        """The number of changes."""
        return len(self._changes)

    def rollback(self, mark: int) -> None:
        """Take back the changes since."""
        while len(self._changes) > mark:
            kind, placement, pods = self._changes.pop()
            self._apply(kind, placement, -pods)

    def number(self, node: str) -> int:
        """The index of a node in the world."""
        return self._number[node]

    def undo(self) -> list[tuple[PodKind, Placement]]:
        """Take back all changes; the places of the pods that came, in this order."""
        put = [(kind, placement) for kind, placement, pods in self._changes if pods > 0]
        self.rollback(0)
        self._placement.clear()
        return put

    def _change(self, kind: PodKind, placement: Placement, pods: int) -> None:
        self._apply(kind, placement, pods)
        self._changes.append((kind, placement, pods))

    def _apply(self, kind: PodKind, placement: Placement, pods: int) -> None:
        change = self._world.place if pods > 0 else self._world.release
        change(kind, placement.node, placement.slots)
