"""The protocols by which pods arrive: inflation (Weng et al., USENIX ATC'23) and churn."""

from collections.abc import Callable, Mapping
from itertools import chain

from scheduler_ext.sim.arrivals import asked_milli, inflated
from scheduler_ext.sim.experiment import Experiment, Outcome, Simulation, at_load
from scheduler_ext.sim.policies.fgd import TARGET_PART, Fragmentation
from scheduler_ext.sim.preemption import Preemption, Residents
from scheduler_ext.sim.trace_workload import workload_of
from scheduler_ext.sim.world import NodesView

# The loads of a report besides the last one, in per cent of the capacity.
FULL_PERCENT = 100
FRAGMENTATION_PERCENT = 90


def run_inflation(experiment: Experiment) -> Outcome:
    """Run an experiment in which pods arrive one by one and stay, until requests exceed the cluster. A pod
    that fits on no node is dropped, and counts as arrived; any other pod is placed. Raises SimulationError
    for impossible settings."""
    simulation = Simulation(experiment)
    world, capacity_milli = simulation.world, simulation.world.cluster.capacity_milli
    measure = Fragmentation(world.cluster, workload_of(simulation.pods).top(TARGET_PART))
    # By arrived load, which is rounded to whole per cents: the fragmentation before the first pod arrives at
    # it, and the mean allocation over the pods that arrive, as a sum and a count.
    fragmentation: dict[int, float] = {}
    sums: dict[int, tuple[int, int]] = {}

    def measured() -> None:
        load = round(simulation.arrived_milli / capacity_milli * 100)
        if load not in sums:
            fragmentation[load] = float(measure.of(NodesView(world)).sum()) / capacity_milli * 100.0
        allocated_milli, count = sums.get(load, (0, 0))
        sums[load] = (allocated_milli + world.allocated_milli, count + 1)

    measured()
    for pod in inflated(simulation.pods, capacity_milli, experiment.load, simulation.random):
        simulation.expect(pod.kind)
        placement = simulation.scheduler.choose(pod.kind)
        if placement is not None:
            world.place(pod.kind, placement.node, placement.slots)
        simulation.count(pod.kind, placed=placement is not None)
        measured()
    allocation = {load: total / count / capacity_milli * 100.0 for load, (total, count) in sums.items()}
    last = round(experiment.load * 100)
    loads = dict.fromkeys(load for load in (FULL_PERCENT, last) if load <= last)
    at_90 = at_load(fragmentation, FRAGMENTATION_PERCENT) if last >= FRAGMENTATION_PERCENT else None
    return simulation.outcome(
        allocation,
        fragmentation,
        allocation_percent={str(load): at_load(allocation, load) for load in loads},
        unallocated_gpus=(capacity_milli - world.allocated_milli) / 1000,
        allocated_value_per_hour=world.allocated_value,
        fragmentation_percent_at_90=at_90,
    )


def run_churn(experiment: Experiment) -> Outcome:
    """Run an experiment in which pods arrive at random times, run for random times, and leave. Arrivals are
    Poisson and lifetimes exponential with mean 1, so that the offered load is the rate times the mean demand
    over the capacity. A pod that fits on no node leaves at once, unless it may evict others. For a seed, the
    same pods arrive at the same times with the same lifetimes, whatever the policy: margins are paired.
    Raises SimulationError for impossible settings."""
    simulation = Simulation(experiment)
    world, pods, random = simulation.world, simulation.pods, simulation.random
    residents = Residents(world)
    preemption = Preemption(world, residents, experiment.seed)
    capacity_milli = world.cluster.capacity_milli
    gap = asked_milli(pods).mean() / (experiment.load * capacity_milli)
    end = experiment.warm_up + experiment.measured
    lowest = min(pod.priority for pod in pods)
    evicts = experiment.priorities in ("qos", "drawn") or any(pod.priority > lowest for pod in pods)
    evicted_milli = 0
    # Allocated demand, and its value, times time since the end of the warm-up, up to `integrated_to`.
    area_milli, area_value, integrated_to = 0.0, 0.0, experiment.warm_up

    def pass_time(until: float) -> None:
        nonlocal area_milli, area_value, integrated_to
        for now in chain(residents.ending(until), (until,)):
            if now > integrated_to:
                area_milli += world.allocated_milli * (now - integrated_to)
                area_value += world.allocated_value * (now - integrated_to)
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
        if placement is None and pod.priority > lowest and (victims := preemption.victims(pod)):
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
        allocated_value_per_hour=area_value / experiment.measured,
        evicted_milli=evicted_milli if evicts else None,
    )


PROTOCOLS: Mapping[str, Callable[[Experiment], Outcome]] = {"inflation": run_inflation, "churn": run_churn}
