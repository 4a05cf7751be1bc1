"""The inflation protocol: pods arrive one by one and stay, until requests exceed the cluster.

Weng et al., "Beware of Fragmentation" (USENIX ATC'23). A pod that fits on no node is dropped, and counts as
arrived; any other pod is placed.
"""

from __future__ import annotations

from scheduler_ext.sim.arrivals import inflated
from scheduler_ext.sim.expectation import workload_of
from scheduler_ext.sim.experiment import Experiment, Outcome, Simulation, at_load
from scheduler_ext.sim.policies.fgd import TARGET_PART, Fragmentation
from scheduler_ext.sim.world import NodesView

# The loads of a report besides the last one, in per cent of the capacity.
FULL_PERCENT = 100
FRAGMENTATION_PERCENT = 90


def run_inflation(experiment: Experiment) -> Outcome:
    """Run an experiment; raises SimulationError for impossible settings."""
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
        fragmentation_percent_at_90=at_90,
    )
