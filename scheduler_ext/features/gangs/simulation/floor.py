"""The pods on the nodes of a simulated cluster, and the planner's view of them."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.features.gangs.planning.draining import Running
from scheduler_ext.features.gangs.simulation.jobs import Job, JobPod
from scheduler_ext.sim.preemption import TraceResident
from scheduler_ext.sim.scheduler import Placement, Scheduler
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.tried_places import OfKind, TriedPlaces
from scheduler_ext.sim.world import World


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod on a node: for preemption, and for the planner."""

    pod: JobPod
    placement: Placement
    resident: TraceResident
    running: Running


class Floor:
    """The placed pods of jobs. A job has started once all of its pods are placed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._placed: dict[str, Placed] = {}
        self._jobs: dict[Job, list[JobPod]] = {}
        self._by_number: dict[int, Job] = {}
        self._by_node: dict[int, dict[str, TraceResident]] = {}
        self._started: set[Job] = set()
        # Demand of the placed pods of gangs that have not started.
        self.partial_milli = 0

    def enter(self, pod: JobPod, placement: Placement, now: float) -> bool:
        """The pod is placed; whether its job has started with it."""
        job = pod.job
        self._world.place(pod.kind, placement.node, placement.slots)
        placed = Placed(
            pod,
            placement,
            TraceResident(job.number, pod.pod, placement),
            self._described(pod, placement, now),
        )
        self._placed[pod.uid] = placed
        self._by_node.setdefault(placement.node, {})[pod.uid] = placed.resident
        self._by_number[job.number] = job
        here = self._jobs.setdefault(job, [])
        here.append(pod)
        self.partial_milli += pod.kind.demand_milli
        if len(here) < len(job.pods):
            return False
        self._started.add(job)
        self.partial_milli -= job.demand_milli
        return True

    def leave(self, job: Job) -> None:
        """All placed pods of a job leave."""
        pods = self._jobs.pop(job)
        del self._by_number[job.number]
        if job in self._started:
            self._started.remove(job)
        else:
            self.partial_milli -= sum(pod.kind.demand_milli for pod in pods)
        for pod in pods:
            placement = self._placed.pop(pod.uid).placement
            del self._by_node[placement.node][pod.uid]
            self._world.release(pod.kind, placement.node, placement.slots)

    def partial(self) -> list[Job]:
        """The gangs that are placed in part."""
        return [job for job in self._jobs if job not in self._started]

    def started(self) -> list[Job]:
        """The jobs that are placed whole."""
        return [job for job in self._jobs if job in self._started]

    def has_started(self, job: Job) -> bool:
        """Whether all pods of a job are placed."""
        return job in self._started

    def of(self, uid: str) -> Placed | None:
        """The pod on its node; None for one without a place."""
        return self._placed.get(uid)

    def on(self, node: int) -> Collection[TraceResident]:
        """The pods on a node."""
        return self._by_node.get(node, {}).values()

    def job_of(self, resident: TraceResident) -> Job:
        """The job of a pod on a node."""
        return self._by_number[resident.number]

    def running(self) -> list[Running]:
        """All placed pods, as the planner has them."""
        return [placed.running for placed in self._placed.values()]

    def _described(self, pod: JobPod, placement: Placement, now: float) -> Running:
        request = GpuRequest(priority=pod.priority)
        ends = None if pod.job.stated is None else now + pod.job.stated
        node = self._world.cluster.names[placement.node]
        stands_for = BoundPod(pod.uid, "", pod.uid, pod.priority, request, started_at=now)
        return Running(stands_for, node, ends, gang=pod.job.key)


class FloorPlaces(TriedPlaces):
    """The same for the planner's trials; a `Draining`."""

    def __init__(self, scheduler: Scheduler, world: World, floor: Floor) -> None:
        super().__init__(scheduler, world)
        self._floor = floor
        self._gone: dict[str, tuple[PodKind, Placement]] = {}
        self._reach: dict[PodKind, frozenset[str]] = {}

    @property
    def nodes(self) -> Collection[str]:
        """The names of all nodes."""
        return self._number.keys()

    def name(self, number: int) -> str:
        """The name of a node, by its index in the world."""
        return self._world.cluster.names[number]

    def remove(self, running: Running) -> None:
        """The pod has left its node."""
        if running.planned is not None:
            kind = running.planned.kind
            self._gone[running.uid] = kind, self._last_put(kind, running.node)
        else:
            placed = self._floor.of(running.uid)
            assert placed is not None, f"{running.uid} is on no node"
            self._gone[running.uid] = placed.pod.kind, placed.placement
        self._change(*self._gone[running.uid], -1)

    def bring_back(self, running: Running) -> None:
        """A pod that has left is on its node again, on the same GPUs."""
        self._change(*self._gone[running.uid], 1)

    def take_back(self, ask: OfKind, node: str) -> None:
        """The last pod of this kind that was put on the node is not there."""
        self._change(ask.kind, self._last_put(ask.kind, node), -1)

    def _last_put(self, kind: PodKind, node: str) -> Placement:
        number, left = self._number[node], Counter[int]()
        here = [each for each in self._changes if each[0] == kind and each[1].node == number]
        for _, placement, pods in here:
            # Pods of the floor have places of their own.
            left[id(placement)] += pods
        return next(placement for _, placement, _ in reversed(here) if left[id(placement)] > 0)

    def part_asked(self, asks: Iterable[OfKind], nodes: Collection[str]) -> float:
        """What these pods ask of the GPUs of nodes, as a part of them; 0 of nodes without any."""
        there = sum(int(self._world.cluster.gpus[self._number[node]]) for node in nodes)
        return sum(ask.kind.gpus for ask in asks) / there if there else 0.0

    def within_reach(self, ask: OfKind) -> Collection[str]:
        """The nodes that are large enough for the pod."""
        kind = ask.kind
        if kind not in self._reach:
            cluster = self._world.cluster
            able = (cluster.cpu_milli >= kind.cpu_milli) & (cluster.memory_mib >= kind.memory_mib)
            if kind.gpus:
                able &= (cluster.gpus >= kind.gpus) & cluster.admits(kind.models)
            self._reach[kind] = frozenset(cluster.names[node] for node in np.flatnonzero(able))
        return self._reach[kind]
