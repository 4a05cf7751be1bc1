"""Jobs that the planner starts: gangs whole or not at all, with reservations and backfill, pods alone in
their turns."""

import time
from collections.abc import Sequence

from scheduler_ext.features.gangs.planning.gang_bounds import KeepingBounds
from scheduler_ext.features.gangs.planning.gang_decisions import Single
from scheduler_ext.features.gangs.planning.gang_reservation import GangReservation
from scheduler_ext.features.gangs.planning.gang_step import GangPolicy, GangStep, Scene
from scheduler_ext.features.gangs.simulation.floor import Floor, FloorPlaces
from scheduler_ext.features.gangs.simulation.jobs import Job, JobPod
from scheduler_ext.features.gangs.simulation.turn import Turn
from scheduler_ext.sim.preemption import SimulatedPreemption
from scheduler_ext.sim.scheduler import Placement, Scheduler
from scheduler_ext.sim.trace_workload import PodKind

# Steps at one time; each evicts pods of lower priority than those that then start.
_MOST_STEPS = 10


class PlannedStarts:
    """Runs steps of the planner. What a step decides happens at once. With `preemption`, gangs evict jobs as
    the planner has it, and pods alone do as kube-scheduler has it, on nodes without kept places."""

    def __init__(
        self,
        scheduler: Scheduler,
        floor: Floor,
        places: FloorPlaces,
        preemption: SimulatedPreemption | None,
    ) -> None:
        self._scheduler = scheduler
        self._floor = floor
        self._places = places
        self._preemption = preemption
        # Times are in lifetimes of pods, and places are kept as long as they are needed.
        bounds = KeepingBounds(float("inf"), share=1.0)
        self._policy = GangPolicy(bounds=bounds, preempts=preemption is not None, starting_s=0.0)
        self._waiting: dict[Job, None] = {}
        self._reservations: Sequence[GangReservation[JobPod]] = ()
        self._spent_s = 0.0
        self.expires = float("inf")
        self.given_up = 0
        self.deadlocked = 0

    def arrive(self, job: Job, now: float) -> Turn:
        """A further job waits. The last one in the order changes nothing for the others, unless they could
        evict it."""
        last = max(self._waiting, key=_order, default=None)
        self._waiting[job] = None
        if self._preemption is not None or (last is not None and _order(job) < _order(last)):
            return self.retry(now)
        turn = Turn()
        self._step([job], now, turn, self._reservations)
        return turn

    def retry(self, now: float) -> Turn:
        """A step for all waiting jobs, and further ones if jobs were evicted."""
        turn = Turn()
        if self._waiting:
            self._steps(now, turn)
        return turn

    def expire(self, now: float) -> Turn:
        """No gang holds GPUs while it waits."""
        return Turn()

    def _steps(self, now: float, turn: Turn) -> None:
        for _ in range(_MOST_STEPS):
            evicted = self._step(list(self._waiting), now, turn)
            if not evicted and not self._preempt(now, turn):
                break

    def _preempt(self, now: float, turn: Turn) -> bool:
        """Evict jobs for pods alone that found no place; whether any were evicted."""
        if self._preemption is None:
            return False
        kept = {node for each in self._reservations for node in each.nodes}
        before = len(turn.evicted)
        for job in sorted((job for job in self._waiting if not job.is_gang), key=_order):
            (pod,) = job.pods
            victims = self._preemption.victims(pod.pod)
            if not victims or self._places.name(victims[0].placement.node) in kept:
                continue
            self._evict([self._floor.job_of(victim) for victim in victims], turn)
            self._enter(pod, self._scheduler.at(pod.kind, victims[0].placement.node), now, turn)
        return len(turn.evicted) > before

    def _evict(self, jobs: Sequence[Job], turn: Turn) -> None:
        for job in dict.fromkeys(jobs):
            self._floor.leave(job)
            self._waiting[job] = None
            turn.evicted.append(job)

    def _step(
        self, jobs: Sequence[Job], now: float, turn: Turn, kept: Sequence[GangReservation[JobPod]] = ()
    ) -> bool:
        """Decide about these jobs beside the reservations `kept`; whether jobs were evicted for some."""
        began = time.perf_counter()
        scene: Scene[JobPod] = Scene(self._places, self._floor.running(), {})
        planning: GangStep[JobPod] = GangStep(now, scene, self._policy, self._reservations)
        planning.backfill.reservations.extend(kept)
        planning.begin([job.gang for job in jobs if job.is_gang])
        nodes = _Order(planning, self._places).decide(sorted(jobs, key=_order))
        decisions = planning.decisions()
        nodes |= {given.uid: given.node for given in decisions.nominate}
        found: dict[tuple[PodKind, int], list[Placement]] = {}
        for kind, placement in self._places.undo():
            found.setdefault((kind, placement.node), []).append(placement)
        self._reservations = decisions.reservations
        self._spent_s += time.perf_counter() - began
        for job in jobs:
            for pod in job.pods:
                if (node := nodes.get(pod.uid)) is not None:
                    # Equal pods on one node are placed alike.
                    placement = found[pod.kind, self._places.number(node)].pop(0)
                    self._enter(pod, placement, now, turn)
        leaving = (self._floor.of(each.uid) for each in decisions.evict)
        self._evict([placed.pod.job for placed in leaving if placed is not None], turn)
        return len(decisions.evict) > 0

    def _enter(self, pod: JobPod, placement: Placement, now: float, turn: Turn) -> None:
        # The time of steps is that of the pods that they place.
        self._scheduler.latencies_s.append(self._spent_s)
        self._spent_s = 0.0
        if self._floor.enter(pod, placement, now):
            del self._waiting[pod.job]
            turn.started.append(pod.job)


class _Order:
    """The turns of jobs in one step."""

    def __init__(self, planning: GangStep[JobPod], places: FloorPlaces) -> None:
        self._planning = planning
        self._places = places
        self._nodes: dict[str, str] = {}
        # Kinds that fit nowhere: in a step, nodes only fill.
        self._refused: set[PodKind] = set()

    def decide(self, jobs: Sequence[Job]) -> dict[str, str]:
        """Decide about jobs in their order; the nodes of pods alone, by uid."""
        for job in jobs:
            if job.is_gang:
                self._planning.start(job.gang)
            elif job.pods[0].kind not in self._refused:
                self._place(job.pods[0])
        return self._nodes

    def _place(self, pod: JobPod) -> None:
        """The best place that disturbs no reservation."""
        place = self._planning.backfill.place(pod, pod.priority, pod.job.stated)
        if place is not None:
            self._places.put(pod, place.node)
            job = pod.job
            single = Single(pod.uid, pod, pod.priority, job.arrived, max_duration_s=job.stated)
            self._planning.hold(single, place.node)
            self._nodes[pod.uid] = place.node
        elif self._places.best(pod) is None:
            self._refused.add(pod.kind)


def _order(job: Job) -> tuple[int, float, int]:
    return -job.priority, job.arrived, job.number
