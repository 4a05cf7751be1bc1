"""Runs of the simulator with a check of every step, in plain Python beside its arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.sim import experiment, protocols
from scheduler_ext.sim.scheduler import Placement, Scheduler
from scheduler_ext.sim.trace_workload import PodKind, TracePod
from scheduler_ext.sim.world import Cluster, World


class Watched:
    """The decisions in order, and the free amounts of each node, checked at every step. Tries in which no
    node of a sample took a pod, while another one would have, are no decisions."""

    def __init__(self) -> None:
        self.decisions: list[tuple[PodKind, Placement | None]] = []
        self.false_refusals = 0
        # The expectation, by the number of the decision from which it held.
        self.expected: list[tuple[int, Workload]] = []
        self.left: list[_Left] = []

    @property
    def rejected(self) -> dict[str, int]:
        """Demand by class of unplaced pods; classes without GPUs left out."""
        demand: Counter[str] = Counter()
        for kind, placement in self.decisions:
            if placement is None:
                demand[kind.request_class] += kind.demand_milli
        return {name: milli for name, milli in demand.items() if milli}


class _Left:
    """The free amounts of one node."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        self.model = cluster.models[cluster.model[node]]
        self.cpu_milli = int(cluster.cpu_milli[node])
        self.memory_mib = int(cluster.memory_mib[node])
        self.rooms_milli = [1000] * int(cluster.gpus[node])
        self.whole = (self.cpu_milli, self.memory_mib)

    def fits(self, kind: PodKind) -> bool:
        admitted = not (kind.gpus and kind.models) or self.model in kind.models
        enough = sum(room >= kind.gpu_milli for room in self.rooms_milli) >= kind.gpus
        return admitted and enough and self.cpu_milli >= kind.cpu_milli and self.memory_mib >= kind.memory_mib

    def take(self, kind: PodKind, slots: Sequence[int], sign: int) -> None:
        assert len(set(slots)) == len(slots) == kind.gpus
        self.cpu_milli -= sign * kind.cpu_milli
        self.memory_mib -= sign * kind.memory_mib
        for slot in slots:
            self.rooms_milli[slot] -= sign * kind.gpu_milli
        assert 0 <= self.cpu_milli <= self.whole[0]
        assert 0 <= self.memory_mib <= self.whole[1]
        assert all(0 <= room <= 1000 for room in self.rooms_milli)


@contextmanager
def watched() -> Iterator[Watched]:
    """Records any protocol that runs within."""
    seen = Watched()

    class WatchedWorld(World):
        def __init__(self, cluster: Cluster) -> None:
            super().__init__(cluster)
            seen.left = [_Left(cluster, node) for node in range(len(cluster))]

        def place(self, kind: PodKind, node: int, slots: tuple[int, ...]) -> None:
            assert seen.left[node].fits(kind)
            seen.left[node].take(kind, slots, 1)
            super().place(kind, node, slots)
            self._hold_to(node)

        def release(self, kind: PodKind, node: int, slots: tuple[int, ...]) -> None:
            seen.left[node].take(kind, slots, -1)
            super().release(kind, node, slots)
            self._hold_to(node)

        def _hold_to(self, node: int) -> None:
            left = seen.left[node]
            assert self.cpu_free[node] == left.cpu_milli
            assert self.memory_free[node] == left.memory_mib
            assert self.room_milli[: len(left.rooms_milli), node].tolist() == left.rooms_milli
            assert self.whole_nodes == sum(set(each.rooms_milli) == {1000} for each in seen.left)

    class WatchedScheduler(Scheduler):
        def retarget(self, workload: Workload) -> None:
            super().retarget(workload)
            seen.expected.append((len(seen.decisions), workload))

        def choose(self, kind: PodKind, *, everywhere: bool = False) -> Placement | None:
            placement = super().choose(kind, everywhere=everywhere)
            # After the eviction of its victims, a pod has a place.
            assert not (everywhere and placement is None)
            if placement is None:
                if any(left.fits(kind) for left in seen.left):
                    assert self._sampling is not None
                    seen.false_refusals += 1
                    return None
            else:
                assert seen.left[placement.node].fits(kind)
            seen.decisions.append((kind, placement))
            return placement

    with (
        patch.object(experiment, "World", WatchedWorld),
        patch.object(experiment, "Scheduler", WatchedScheduler),
    ):
        yield seen


@contextmanager
def arriving(arrivals: Sequence[TracePod]) -> Iterator[None]:
    """Only these pods arrive under inflation, in this order."""
    with patch.object(protocols, "inflated", lambda *_: list(arrivals)):
        yield
