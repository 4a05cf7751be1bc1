"""Churn with gangs: jobs arrive at random times, wait until they fit, run for random times, and leave."""

from heapq import heappop, heappush
from itertools import count

from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.features.gangs.planning.gang_fit import GangFit, fit
from scheduler_ext.features.gangs.simulation.floor import Floor, FloorPlaces
from scheduler_ext.features.gangs.simulation.job_account import JobAccount
from scheduler_ext.features.gangs.simulation.jobs import ALONE, GangSettings, Job, Jobs
from scheduler_ext.features.gangs.simulation.one_by_one import OneByOne
from scheduler_ext.features.gangs.simulation.planned_starts import PlannedStarts
from scheduler_ext.features.gangs.simulation.turn import JobScheduler, Turn
from scheduler_ext.sim.experiment import Experiment, RunOutcome, Simulation
from scheduler_ext.sim.placement_policy import Target
from scheduler_ext.sim.policies import POLICIES
from scheduler_ext.sim.preemption import SimulatedPreemption
from scheduler_ext.sim.scheduler import Scheduler, Settings
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import Cluster, World


def run_gang_churn(experiment: Experiment, gangs: GangSettings) -> RunOutcome:
    """Run an experiment in which jobs arrive as a Poisson process and wait until they fit. A job runs for an
    exponential time of mean 1 once all of its pods are placed. A job for which the empty cluster is too small
    is rejected. One that is evicted waits again and runs from the beginning. For a seed, the same jobs arrive
    at the same times, whatever the policy and the start. Raises SimulationError for impossible settings."""
    return _GangChurn(experiment, gangs).run()


class _GangChurn:
    def __init__(self, experiment: Experiment, gangs: GangSettings) -> None:
        self._experiment = experiment
        self._start = gangs.start
        self._simulation = simulation = Simulation(experiment)
        world, pods = simulation.world, simulation.pods
        self._jobs = Jobs(pods, gangs)
        self._gap = self._jobs.mean_milli / (experiment.load * world.cluster.capacity_milli)
        self._floor = Floor(world)
        self._places = FloorPlaces(simulation.scheduler, world, self._floor)
        self._end = experiment.warm_up + experiment.measured
        self._account = JobAccount(world, self._floor, experiment.warm_up, self._end)
        self._evicts = len({pod.priority for pod in pods}) > 1
        self._scheduler = self._scheduler_of(gangs)
        self._empty = _EmptyCluster(world.cluster)
        self._rejected: list[Job] = []
        # The ends of running jobs; one that has been evicted since ends at another time.
        self._ends: list[tuple[float, int, Job]] = []
        self._ends_at: dict[Job, float] = {}
        self._numbers = count()

    def _scheduler_of(self, gangs: GangSettings) -> JobScheduler:
        simulation, floor, places = self._simulation, self._floor, self._places
        preemption = (
            SimulatedPreemption(simulation.world, floor, self._experiment.seed) if self._evicts else None
        )
        if gangs.start == ALONE:
            return OneByOne(simulation.scheduler, floor, places, gangs.patience, preemption)
        return PlannedStarts(simulation.scheduler, floor, places, preemption)

    def run(self) -> RunOutcome:
        """All events up to the end."""
        random = self._simulation.random
        arrival = random.exponential(self._gap)
        while True:
            ending = self._ends[0][0] if self._ends else float("inf")
            now = min(arrival, ending, self._scheduler.expires, self._end)
            self._account.pass_time(now)
            if now == self._end:
                return self._outcome()
            if now == ending:
                self._finish(now)
            elif now == arrival:
                self._arrive(now)
                arrival = now + random.exponential(self._gap)
            else:
                self._apply(self._scheduler.expire(now), now)

    def _arrive(self, now: float) -> None:
        job = self._jobs.draw(now, self._simulation.random)
        for pod in job.pods:
            self._simulation.expect(pod.kind)
        if not self._empty.takes(job):
            self._rejected.append(job)
            return
        self._account.arrived(job)
        self._apply(self._scheduler.arrive(job, now), now)

    def _finish(self, now: float) -> None:
        _, _, job = heappop(self._ends)
        if self._ends_at.get(job) != now:
            return
        del self._ends_at[job]
        self._floor.leave(job)
        self._apply(self._scheduler.retry(now), now)

    def _apply(self, turn: Turn, now: float) -> None:
        for job in dict.fromkeys([*turn.evicted, *turn.started]):
            self._ends_at.pop(job, None)
            if self._floor.has_started(job):
                self._ends_at[job] = now + job.runs
                heappush(self._ends, (now + job.runs, next(self._numbers), job))
        self._account.started(turn.started, now)
        self._account.evicted(turn.evicted, now)

    def _outcome(self) -> RunOutcome:
        simulation, waiting_milli = self._simulation, 0
        for job in self._rejected:
            if job.arrived >= self._experiment.warm_up:
                for pod in job.pods:
                    simulation.count(pod.kind, placed=False)
        for job, started in self._account.jobs:
            if started:
                for pod in job.pods:
                    simulation.count(pod.kind, placed=True)
            else:
                waiting_milli += job.demand_milli
        simulation.arrived_milli += waiting_milli
        return simulation.outcome(
            start=self._start,
            waiting_milli=waiting_milli,
            given_up=self._scheduler.given_up,
            deadlocked=self._scheduler.deadlocked,
            evicted_milli=self._account.evicted_milli if self._evicts else None,
            **self._account.measured(),
        )


class _EmptyCluster:
    """The cluster without any pods, on which a job must fit."""

    def __init__(self, cluster: Cluster) -> None:
        world = World(cluster)
        policy = POLICIES["first-fit"](Target(cluster, Workload()))
        self._places = FloorPlaces(Scheduler(world, policy, Settings(ties="first")), world, Floor(world))
        self._known: dict[tuple[PodKind, ...], bool] = {}

    def takes(self, job: Job) -> bool:
        """Whether all pods of a job fit together."""
        kinds = tuple(pod.kind for pod in job.pods)
        if kinds not in self._known:
            mark = self._places.mark()
            self._known[kinds] = isinstance(fit(job.gang, self._places, {}), GangFit)
            self._places.rollback(mark)
        return self._known[kinds]
