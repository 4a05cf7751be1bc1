"""The protocols by which pods arrive: inflation (Weng et al., USENIX ATC'23) and churn."""

from collections.abc import Callable, Iterable, Mapping
from math import inf

from scheduler_ext.sim.arrivals import asked_milli, inflated
from scheduler_ext.sim.experiment import Arrival, Decided, Experiment, RunOutcome, Simulation, at_load
from scheduler_ext.sim.policies.fgd import TARGET_PART, FragmentationMeasure
from scheduler_ext.sim.preemption import Residents, SimulatedPreemption
from scheduler_ext.sim.scheduler import Placement
from scheduler_ext.sim.trace_workload import TracePod, workload_of
from scheduler_ext.sim.world import NodesView

# The loads of a report besides the last one, in per cent of the capacity.
FULL_PERCENT = 100
FRAGMENTATION_PERCENT = 90


def run_inflation(experiment: Experiment) -> RunOutcome:
    """Run an experiment in which pods arrive, one by one or in bursts, and stay, until requests exceed the
    cluster. A pod that fits on no node is dropped, and counts as arrived; any other pod is placed, at once
    or, if it fits on no examined node, later. Raises SimulationError for impossible settings."""
    simulation = Simulation(experiment)
    world, capacity_milli = simulation.world, simulation.world.cluster.capacity_milli
    measure = FragmentationMeasure(world.cluster, workload_of(simulation.pods).top(TARGET_PART))
    # By arrived load, which is rounded to whole per cents: the fragmentation before the first pod arrives at
    # it, and the mean allocation over the pods that arrive, as a sum and a count.
    fragmentation: dict[int, float] = {}
    sums: dict[int, tuple[int, int]] = {}

    def measured() -> None:
        arrived_milli = simulation.arrived_milli + simulation.waiting_milli
        load = round(arrived_milli / capacity_milli * 100)
        if load not in sums:
            fragmentation[load] = float(measure.of(NodesView(world)).sum()) / capacity_milli * 100.0
        allocated_milli, count = sums.get(load, (0, 0))
        sums[load] = (allocated_milli + world.allocated_milli, count + 1)

    def settle(decided: Iterable[Decided]) -> None:
        for (pod, _), placement in decided:
            if placement is not None:
                world.place(pod.kind, placement.node, placement.slots)
            simulation.count(pod.kind, placed=placement is not None)

    measured()
    for pod in inflated(simulation.pods, capacity_milli, experiment.load, simulation.random):
        simulation.expect(pod.kind)
        settle(simulation.decided((pod, inf)))
        measured()
    settle(simulation.decided_at_last())
    allocation = {load: total / count / capacity_milli * 100.0 for load, (total, count) in sums.items()}
    last = round(experiment.load * 100)
    loads = dict.fromkeys(load for load in (FULL_PERCENT, last) if load <= last)
    at_90 = at_load(fragmentation, FRAGMENTATION_PERCENT) if last >= FRAGMENTATION_PERCENT else None
    return simulation.outcome(
        allocation,
        fragmentation,
        allocation_percent={str(load): at_load(allocation, load) for load in loads},
        unallocated_gpus=(capacity_milli - world.allocated_milli) / 1000,
        whole_nodes_free=float(world.whole_nodes),
        allocated_value_per_hour=world.allocated_value,
        fragmentation_percent_at_90=at_90,
        **simulation.sampled(),
    )


def run_churn(experiment: Experiment) -> RunOutcome:
    """Run an experiment in which pods arrive at random times, run for random times, and leave. Arrivals are
    Poisson and lifetimes exponential with mean 1, so that the offered load is the
    rate times the mean demand over the capacity. A pod that fits on no node leaves at once, unless it may
    evict others; one that fits, but on no examined node, waits, and its lifetime begins later. For a seed,
    the same pods arrive at the same times with the same lifetimes, whatever the policy: margins are paired.
    Raises SimulationError for impossible settings."""
    churn = _Churn(experiment)
    random, end = churn.simulation.random, experiment.warm_up + experiment.measured
    now = random.exponential(churn.gap)
    while now < end:
        churn.pass_time(now)
        churn.arrive(now)
        now += random.exponential(churn.gap)
    churn.pass_time(end)
    return churn.outcome()


class _Churn:
    """The running pods of an experiment, and what was allocated since the end of the warm-up."""

    def __init__(self, experiment: Experiment) -> None:
        self.simulation = simulation = Simulation(experiment)
        self._experiment = experiment
        self._world, self._pods = simulation.world, simulation.pods
        self._residents = Residents(self._world)
        self._preemption = SimulatedPreemption(self._world, self._residents, experiment.seed)
        self._capacity_milli = self._world.cluster.capacity_milli
        offered_milli = experiment.load * self._capacity_milli
        # The mean time between two arrivals.
        self.gap = float(asked_milli(self._pods).mean() / offered_milli)
        self._lowest = min(pod.priority for pod in self._pods)
        self._evicted_milli = 0
        # Allocated demand, its value, and the nodes without it, times time since the end of the warm-up, up
        # to `integrated_to`.
        self._area_milli, self._area_value, self._area_whole = 0.0, 0.0, 0.0
        self._integrated_to = experiment.warm_up

    def pass_time(self, until: float) -> None:
        """Let pods end up to a time, and others that wait take their places."""
        while (ending := self._residents.next_end(until)) is not None:
            now, resident = ending
            self._integrate(now)
            self._residents.leave(resident)
            self._settle(None, now)
        self._integrate(until)

    def _integrate(self, now: float) -> None:
        if now > self._integrated_to:
            elapsed = now - self._integrated_to
            self._area_milli += self._world.allocated_milli * elapsed
            self._area_value += self._world.allocated_value * elapsed
            self._area_whole += self._world.whole_nodes * elapsed
            self._integrated_to = now

    def arrive(self, now: float) -> None:
        """Let a pod arrive."""
        random = self.simulation.random
        pod = self._pods[int(random.integers(len(self._pods)))]
        # Drawn for rejected pods too, so that all policies meet the same pods at the same times.
        lifetime = random.exponential()
        self.simulation.expect(pod.kind)
        self._settle((pod, lifetime), now)

    def _settle(self, arriving: Arrival | None, now: float) -> None:
        counts = now >= self._experiment.warm_up
        for (pod, lifetime), placement in self.simulation.decided(arriving):
            evicted_milli = 0
            if placement is None and pod.priority > self._lowest:
                placement, evicted_milli = self._evict_for(pod)
            if placement is not None:
                self._residents.enter(pod, placement, now + lifetime)
            if counts:
                self._evicted_milli += evicted_milli
                self.simulation.count(pod.kind, placed=placement is not None)

    def _evict_for(self, pod: TracePod) -> tuple[Placement | None, int]:
        """The place of a pod after the eviction of its victims, and their demand."""
        victims = self._preemption.victims(pod)
        for victim in victims:
            self._residents.leave(victim)
        # The pod is scheduled like any other, and may get a better place than that of its victims, which
        # kube-scheduler examines first.
        placement = self.simulation.scheduler.choose(pod.kind, everywhere=True) if victims else None
        return placement, sum(victim.pod.kind.demand_milli for victim in victims)

    def outcome(self) -> RunOutcome:
        """The outcome at the end."""
        mean_milli = self._area_milli / self._experiment.measured
        evicts = self._experiment.priorities in ("qos", "drawn") or any(
            pod.priority > self._lowest for pod in self._pods
        )
        return self.simulation.outcome(
            mean_allocation_percent=mean_milli / self._capacity_milli * 100.0,
            unallocated_gpus=(self._capacity_milli - mean_milli) / 1000,
            whole_nodes_free=self._area_whole / self._experiment.measured,
            allocated_value_per_hour=self._area_value / self._experiment.measured,
            evicted_milli=self._evicted_milli if evicts else None,
            **self.simulation.sampled(),
        )


PROTOCOLS: Mapping[str, Callable[[Experiment], RunOutcome]] = {"inflation": run_inflation, "churn": run_churn}
