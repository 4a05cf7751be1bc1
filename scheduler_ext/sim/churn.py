"""The churn protocol: pods arrive at random times, run for random times, and leave.

Arrivals are Poisson and lifetimes exponential with mean 1, so that the offered load is the rate times the
mean demand over the capacity. A pod that fits on no node leaves at once, unless it may evict others. For a
seed, the same pods arrive at the same times with the same lifetimes, whatever the policy: margins are paired.
"""

from __future__ import annotations

from itertools import chain

from scheduler_ext.sim.arrivals import asked_milli
from scheduler_ext.sim.experiment import Experiment, Outcome, Simulation
from scheduler_ext.sim.preemption import Preemption, Residents


def run_churn(experiment: Experiment) -> Outcome:
    """Run an experiment from an empty cluster; raises SimulationError for impossible settings."""
    simulation = Simulation(experiment)
    world, pods, random = simulation.world, simulation.pods, simulation.random
    residents = Residents(world)
    preemption = Preemption(world, residents, experiment.seed)
    capacity_milli = world.cluster.capacity_milli
    gap = asked_milli(pods).mean() / (experiment.load * capacity_milli)
    end = experiment.warm_up + experiment.measured
    evicted_milli = 0
    # Allocated demand times time since the end of the warm-up, up to ``integrated_to``.
    area_milli, integrated_to = 0.0, experiment.warm_up

    def pass_time(until: float) -> None:
        nonlocal area_milli, integrated_to
        for now in chain(residents.ending(until), (until,)):
            if now > integrated_to:
                area_milli += world.allocated_milli * (now - integrated_to)
                integrated_to = now

    now = random.exponential(gap)
    while now < end:
        pass_time(now)
        counts = now >= experiment.warm_up
        pod = pods[int(random.integers(len(pods)))]
        # Drawn for rejected pods too, so that all policies meet the same pods at the same times.
        ends = now + random.exponential()
        simulation.expect(pod.kind)
        placement = simulation.scheduler.choose(pod.kind)
        if placement is None and pod.priority > 0 and (victims := preemption.victims(pod)):
            for victim in victims:
                residents.leave(victim)
            if counts:
                evicted_milli += sum(victim.pod.kind.demand_milli for victim in victims)
            # The pod is scheduled like any other, and may get a better place than that of its victims.
            placement = simulation.scheduler.choose(pod.kind)
        if placement is not None:
            residents.enter(pod, placement, ends)
        if counts:
            simulation.count(pod.kind, placed=placement is not None)
        now += random.exponential(gap)
    pass_time(end)
    mean_milli = area_milli / experiment.measured
    return simulation.outcome(
        mean_allocation_percent=mean_milli / capacity_milli * 100.0,
        unallocated_gpus=(capacity_milli - mean_milli) / 1000,
        evicted_milli=None if experiment.priorities == "none" else evicted_milli,
    )
