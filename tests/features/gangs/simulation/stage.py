"""A small cluster on which a test lets jobs arrive and end by hand."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_ext.features.gangs.simulation.floor import Floor, FloorPlaces
from scheduler_ext.features.gangs.simulation.jobs import ALONE, Job
from scheduler_ext.features.gangs.simulation.one_by_one import OneByOne
from scheduler_ext.features.gangs.simulation.planned_starts import PlannedStarts
from scheduler_ext.features.gangs.simulation.turn import JobScheduler, Turn
from scheduler_ext.sim.preemption import SimulatedPreemption
from scheduler_ext.sim.scheduler import Settings
from scheduler_ext.sim.trace_workload import PodKind, TracePod
from scheduler_ext.sim.world import Cluster, World
from tests.sim.small import scheduler_of

FIRST = Settings(ties="first")


class Stage:
    """Pods go to the fullest node; of equal ones the first."""

    def __init__(
        self,
        cluster: Cluster,
        start: str,
        *,
        patience: float = 1e9,
        preempts: bool = False,
        settings: Settings = FIRST,
    ) -> None:
        self.world = World(cluster)
        self.floor = Floor(self.world)
        scheduler = scheduler_of(self.world, settings=settings)
        self.places = FloorPlaces(scheduler, self.world, self.floor)
        preemption = SimulatedPreemption(self.world, self.floor, 0) if preempts else None
        self.scheduler: JobScheduler = (
            OneByOne(scheduler, self.floor, self.places, patience, preemption)
            if start == ALONE
            else PlannedStarts(scheduler, self.floor, self.places, preemption)
        )
        self._arrived = 0

    def arrive(self, *kinds: PodKind, at: float = 0.0, stated: float | None = None, priority: int = 0) -> Job:
        """A job of these pods."""
        self._arrived += 1
        pods = tuple(TracePod("pod", kind, priority=priority) for kind in kinds)
        job = Job(self._arrived, pods, at, 1.0, stated)
        self.scheduler.arrive(job, at)
        return job

    def end(self, job: Job, at: float) -> Turn:
        """A job that has started leaves."""
        assert self.floor.has_started(job)
        self.floor.leave(job)
        return self.scheduler.retry(at)

    def running(self, jobs: Sequence[Job]) -> list[bool]:
        """Which of these have started."""
        return [self.floor.has_started(job) for job in jobs]

    def held(self, job: Job) -> int:
        """How many of its pods have a place."""
        return sum(self.floor.of(pod.uid) is not None for pod in job.pods)
