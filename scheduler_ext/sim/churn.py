"""The churn protocol: pods arrive at random times, run for random times, and leave.

Arrivals are Poisson and lifetimes exponential with mean 1, so that the offered load is the rate times the
mean demand over the capacity. A pod that fits on no node leaves at once, unless it may evict others. For a
seed, the same pods arrive at the same times with the same lifetimes, whatever the policy: margins are paired.
"""

from __future__ import annotations

import numpy as np

from scheduler_ext.sim.arrivals import constrained, mean_demand_milli, prioritised
from scheduler_ext.sim.expectation import Expectation
from scheduler_ext.sim.experiment import Experiment, Outcome
from scheduler_ext.sim.placement_policy import Target
from scheduler_ext.sim.policies import policy_factory
from scheduler_ext.sim.preemption import Preemption, Residents
from scheduler_ext.sim.scheduler import Placement, Scheduler
from scheduler_ext.sim.tally import Tally
from scheduler_ext.sim.trace_workload import TracePod
from scheduler_ext.sim.world import Cluster, World


def run_churn(experiment: Experiment) -> Outcome:
    """Run an experiment; raises SimulationError for impossible settings."""
    return _Churn(experiment).run()


class _Churn:
    """One run: its state, and its accounts after the warm-up."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._random = np.random.default_rng(experiment.seed)
        cluster = Cluster.of(experiment.nodes)
        cluster = cluster.ordered(self._random.permutation(len(cluster)))
        pods = constrained(experiment.pods, cluster, experiment.constrain_percent, self._random)
        self._pods = prioritised(pods, experiment.priorities, self._random)
        self._expectation = Expectation(experiment.target, self._pods)
        self._world = World(cluster)
        target = Target(cluster, self._expectation.workload, experiment.seed, experiment.knobs)
        policy = policy_factory(experiment.policy)(target)
        self._scheduler = Scheduler(self._world, policy, experiment.settings, experiment.seed)
        self._residents = Residents(self._world)
        self._preemption = Preemption(self._world, self._residents, experiment.seed)
        self._tally = Tally()
        self._evicted_milli = 0
        # Allocated demand times time since the end of the warm-up, up to ``_integrated_to``.
        self._area_milli = 0.0
        self._integrated_to = experiment.warm_up

    def run(self) -> Outcome:
        """From an empty cluster to the end."""
        experiment = self._experiment
        end = experiment.warm_up + experiment.measured
        gap = mean_demand_milli(self._pods) / (experiment.load * self._world.cluster.capacity_milli)
        now = self._random.exponential(gap)
        while now < end:
            self._pass_time(now)
            pod = self._pods[int(self._random.integers(len(self._pods)))]
            self._arrive(pod, now)
            now += self._random.exponential(gap)
        self._pass_time(end)
        return self._outcome()

    def _pass_time(self, now: float) -> None:
        for ends in self._residents.ending(now):
            self._integrate(ends)
        self._integrate(now)

    def _integrate(self, now: float) -> None:
        if now > self._integrated_to:
            self._area_milli += self._world.allocated_milli * (now - self._integrated_to)
            self._integrated_to = now

    def _arrive(self, pod: TracePod, now: float) -> None:
        workload = self._expectation.saw(pod.kind)
        if workload is not None:
            self._scheduler.retarget(workload)
        counts = now >= self._experiment.warm_up
        # Drawn for rejected pods too, so that all policies meet the same pods at the same times.
        ends = now + self._random.exponential()
        placement = self._scheduler.choose(pod.kind)
        if placement is None and pod.priority > 0:
            placement = self._make_room(pod, counts=counts)
        if placement is not None:
            self._residents.enter(pod, placement, ends)
        if counts:
            self._tally.arrived(pod.kind, placed=placement is not None)

    def _make_room(self, pod: TracePod, *, counts: bool) -> Placement | None:
        victims = self._preemption.victims(pod)
        for victim in victims:
            self._residents.leave(victim)
            if counts:
                self._evicted_milli += victim.pod.kind.demand_milli
        # The pod is scheduled like any other, and may get a better place than that of its victims.
        return self._scheduler.choose(pod.kind) if victims else None

    def _outcome(self) -> Outcome:
        experiment, capacity_milli = self._experiment, self._world.cluster.capacity_milli
        mean_milli = self._area_milli / experiment.measured
        return self._tally.outcome(
            experiment,
            self._world,
            self._scheduler.latencies_s,
            mean_allocation_percent=mean_milli / capacity_milli * 100.0,
            unallocated_gpus=(capacity_milli - mean_milli) / 1000,
            evicted_milli=None if experiment.priorities == "none" else self._evicted_milli,
        )
