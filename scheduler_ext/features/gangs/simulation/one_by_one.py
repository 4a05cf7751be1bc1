"""Jobs whose pods are placed one by one, as kube-scheduler does: pods of a gang hold their GPUs while they
wait for the others."""

from collections.abc import Iterable

from scheduler_ext.features.gangs.simulation.deadlocks import deadlocked
from scheduler_ext.features.gangs.simulation.floor import Floor, FloorPlaces
from scheduler_ext.features.gangs.simulation.jobs import Job, JobPod
from scheduler_ext.features.gangs.simulation.turn import Turn
from scheduler_ext.sim.preemption import SimulatedPreemption
from scheduler_ext.sim.scheduler import Placement, Scheduler
from scheduler_ext.sim.trace_workload import PodKind


class OneByOne:
    """Places waiting pods by priority and age. A gang that has been placed in part for longer than its
    `patience` leaves its nodes and waits behind all others. `preemption` is None if no pod evicts others; a
    job leaves whole."""

    def __init__(
        self,
        scheduler: Scheduler,
        floor: Floor,
        places: FloorPlaces,
        patience: float,
        preemption: SimulatedPreemption | None,
    ) -> None:
        self._scheduler = scheduler
        self._floor = floor
        self._places = places
        self._patience = patience
        self._preemption = preemption
        # The waiting pods, and when they came into the queue.
        self._waiting: dict[JobPod, float] = {}
        # When the first pod of a gang was placed that has not started.
        self._began: dict[Job, float] = {}
        self.given_up = 0
        self.deadlocked = 0

    def arrive(self, job: Job, now: float) -> Turn:
        """A further job waits; nothing has changed for the others."""
        turn = Turn()
        self._queue(job, now)
        self._place(job.pods, now, turn)
        return turn

    def retry(self, now: float) -> Turn:
        """All waiting pods are tried."""
        turn = Turn()
        self._place(self._waiting, now, turn)
        return turn

    @property
    def expires(self) -> float:
        """When the next gang gives up."""
        return min(self._began.values(), default=float("inf")) + self._patience

    def expire(self, now: float) -> Turn:
        """The gangs whose time is up leave their nodes and begin again."""
        late = [job for job, began in self._began.items() if began + self._patience <= now]
        self.given_up += len(late)
        self.deadlocked += len(deadlocked(self._floor, self._places).intersection(late))
        for job in late:
            self._leave(job, now)
        return self.retry(now)

    def _queue(self, job: Job, now: float) -> None:
        for pod in job.pods:
            self._waiting[pod] = now

    def _leave(self, job: Job, now: float) -> None:
        self._floor.leave(job)
        self._began.pop(job, None)
        self._queue(job, now)

    def _place(self, pods: Iterable[JobPod], now: float, turn: Turn) -> None:
        evicted = self._one_pass(pods, now, turn)
        while evicted:
            # Their pods may fit elsewhere.
            turn.evicted += evicted
            evicted = self._one_pass(self._waiting, now, turn)

    def _one_pass(self, pods: Iterable[JobPod], now: float, turn: Turn) -> list[Job]:
        """Place these pods in their order; the jobs that were evicted for them."""
        evicted: list[Job] = []
        refused: set[tuple[PodKind, int]] = set()
        for pod in sorted(pods, key=self._order):
            if (pod.kind, pod.priority) in refused:
                continue
            placement = self._scheduler.choose(pod.kind)
            if placement is None:
                placement, gone = self._evict_for(pod, now)
                if gone:
                    evicted += gone
                    refused.clear()
            if placement is None:
                # Other nodes may be examined for the next one.
                if not self._scheduler.fits(pod.kind):
                    refused.add((pod.kind, pod.priority))
                continue
            del self._waiting[pod]
            if self._floor.enter(pod, placement, now):
                self._began.pop(pod.job, None)
                turn.started.append(pod.job)
            else:
                self._began.setdefault(pod.job, now)
        return evicted

    def _order(self, pod: JobPod) -> tuple[int, float, int]:
        return -pod.priority, self._waiting[pod], pod.job.number

    def _evict_for(self, pod: JobPod, now: float) -> tuple[Placement | None, list[Job]]:
        """The place of a pod after the eviction of its victims, and their jobs."""
        victims = self._preemption.victims(pod.pod) if self._preemption is not None else ()
        jobs = list(dict.fromkeys(self._floor.job_of(victim) for victim in victims))
        for job in jobs:
            self._leave(job, now)
        return (self._scheduler.choose(pod.kind, everywhere=True) if jobs else None), jobs
