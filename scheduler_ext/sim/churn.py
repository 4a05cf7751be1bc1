"""The churn protocol: pods arrive at random times, run for random times, and leave.

Arrivals are Poisson and lifetimes exponential with mean 1, so that the offered load is the rate times the
mean demand over the capacity. A pod that fits on no node leaves at once, unless it may evict others. For a
seed, the same pods arrive at the same times with the same lifetimes, whatever the policy: margins are paired.
"""

from __future__ import annotations

from scheduler_ext.sim.arrivals import asked_milli
from scheduler_ext.sim.experiment import Experiment, Outcome, Simulation
from scheduler_ext.sim.preemption import Preemption, Residents
from scheduler_ext.sim.scheduler import Placement
from scheduler_ext.sim.trace_workload import TracePod


def run_churn(experiment: Experiment) -> Outcome:
    """Run an experiment; raises SimulationError for impossible settings."""
    return _Churn(experiment).run()


class _Churn:
    """One run: its state, and its accounts after the warm-up."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._simulation = Simulation(experiment)
        self._world = self._simulation.world
        self._residents = Residents(self._world)
        self._preemption = Preemption(self._world, self._residents, experiment.seed)
        self._evicted_milli = 0
        # Allocated demand times time since the end of the warm-up, up to ``_integrated_to``.
        self._area_milli = 0.0
        self._integrated_to = experiment.warm_up

    def run(self) -> Outcome:
        """From an empty cluster to the end."""
        experiment, pods, random = self._experiment, self._simulation.pods, self._simulation.random
        capacity_milli = self._world.cluster.capacity_milli
        end = experiment.warm_up + experiment.measured
        gap = asked_milli(pods).mean() / (experiment.load * capacity_milli)
        now = random.exponential(gap)
        while now < end:
            self._pass_time(now)
            pod = pods[int(random.integers(len(pods)))]
            # Drawn for rejected pods too, so that all policies meet the same pods at the same times.
            self._arrive(pod, now, until=now + random.exponential())
            now += random.exponential(gap)
        self._pass_time(end)
        mean_milli = self._area_milli / experiment.measured
        return self._simulation.outcome(
            mean_allocation_percent=mean_milli / capacity_milli * 100.0,
            unallocated_gpus=(capacity_milli - mean_milli) / 1000,
            evicted_milli=None if experiment.priorities == "none" else self._evicted_milli,
        )

    def _pass_time(self, now: float) -> None:
        for ends in self._residents.ending(now):
            self._integrate(ends)
        self._integrate(now)

    def _integrate(self, now: float) -> None:
        if now > self._integrated_to:
            self._area_milli += self._world.allocated_milli * (now - self._integrated_to)
            self._integrated_to = now

    def _arrive(self, pod: TracePod, now: float, until: float) -> None:
        counts = now >= self._experiment.warm_up
        self._simulation.expect(pod.kind)
        placement = self._simulation.scheduler.choose(pod.kind)
        if placement is None and pod.priority > 0:
            placement = self._make_room(pod, counts=counts)
        if placement is not None:
            self._residents.enter(pod, placement, until)
        if counts:
            self._simulation.count(pod.kind, placed=placement is not None)

    def _make_room(self, pod: TracePod, *, counts: bool) -> Placement | None:
        victims = self._preemption.victims(pod)
        for victim in victims:
            self._residents.leave(victim)
            if counts:
                self._evicted_milli += victim.pod.kind.demand_milli
        # The pod is scheduled like any other, and may get a better place than that of its victims.
        return self._simulation.scheduler.choose(pod.kind) if victims else None
