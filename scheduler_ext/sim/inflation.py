"""The inflation protocol: pods arrive one by one and stay, until requests exceed the cluster.

Weng et al., "Beware of Fragmentation" (USENIX ATC'23). A pod that fits on no node is dropped, and counts as
arrived; any other pod is placed.
"""

from __future__ import annotations

import numpy as np

from scheduler_ext.sim.arrivals import constrained, inflated
from scheduler_ext.sim.expectation import Expectation, workload_of
from scheduler_ext.sim.experiment import Experiment, Outcome, at_load
from scheduler_ext.sim.fgd_fragmentation import TARGET_PART, Fragmentation
from scheduler_ext.sim.placement_policy import Target
from scheduler_ext.sim.policies import policy_factory
from scheduler_ext.sim.scheduler import Scheduler
from scheduler_ext.sim.tally import Tally
from scheduler_ext.sim.world import Cluster, NodesView, World

# The loads of a report besides the last one, in per cent of the capacity.
FULL_PERCENT = 100
FRAGMENTATION_PERCENT = 90


def run_inflation(experiment: Experiment) -> Outcome:
    """Run an experiment; raises SimulationError for impossible settings."""
    random = np.random.default_rng(experiment.seed)
    cluster = Cluster.of(experiment.nodes)
    # Drawn first, so that the order is the same for any pods.
    cluster = cluster.ordered(random.permutation(len(cluster)))
    pods = constrained(experiment.pods, cluster, experiment.constrain_percent, random)
    arrivals = inflated(pods, cluster.capacity_milli, experiment.load, random)

    expectation = Expectation(experiment.target, pods)
    target = Target(cluster, expectation.workload, experiment.seed, experiment.knobs)
    world = World(cluster)
    scheduler = Scheduler(
        world, policy_factory(experiment.policy)(target), experiment.settings, experiment.seed
    )
    tally, curves = Tally(), _Curves(world, Fragmentation(cluster, workload_of(pods).top(TARGET_PART)))
    for pod in arrivals:
        workload = expectation.saw(pod.kind)
        if workload is not None:
            scheduler.retarget(workload)
        placement = scheduler.choose(pod.kind)
        if placement is not None:
            world.place(pod.kind, placement.node, placement.slots)
        tally.arrived(pod.kind, placed=placement is not None)
        curves.arrived(tally.arrived_milli)
    return _outcome(experiment, world, tally, curves, scheduler)


class _Curves:
    """Allocation and fragmentation by arrived load, which is rounded to whole per cents."""

    def __init__(self, world: World, fragmentation: Fragmentation) -> None:
        self._world = world
        self._fragmentation = fragmentation
        self._sums: dict[int, tuple[int, int]] = {}
        self.fragmentation_percent: dict[int, float] = {}
        # Before the first pod.
        self.arrived(0)

    def arrived(self, arrived_milli: int) -> None:
        world = self._world
        capacity_milli = world.cluster.capacity_milli
        load = round(arrived_milli / capacity_milli * 100)
        if load not in self._sums:
            self._sums[load] = (0, 0)
            fragmented = float(self._fragmentation.of(NodesView(world)).sum())
            self.fragmentation_percent[load] = fragmented / capacity_milli * 100.0
        allocated_milli, count = self._sums[load]
        self._sums[load] = (allocated_milli + world.allocated_milli, count + 1)

    @property
    def allocation_percent(self) -> dict[int, float]:
        """The mean over the pods that arrived at each load."""
        capacity_milli = self._world.cluster.capacity_milli
        return {load: total / count / capacity_milli * 100.0 for load, (total, count) in self._sums.items()}


def _outcome(
    experiment: Experiment, world: World, tally: Tally, curves: _Curves, scheduler: Scheduler
) -> Outcome:
    allocation, fragmentation = curves.allocation_percent, curves.fragmentation_percent
    last = round(experiment.load * 100)
    loads = dict.fromkeys(load for load in (FULL_PERCENT, last) if load <= last)
    at_90 = at_load(fragmentation, FRAGMENTATION_PERCENT) if last >= FRAGMENTATION_PERCENT else None
    return tally.outcome(
        experiment,
        world,
        scheduler.latencies_s,
        allocation,
        fragmentation,
        allocation_percent={str(load): at_load(allocation, load) for load in loads},
        unallocated_gpus=(world.cluster.capacity_milli - world.allocated_milli) / 1000,
        fragmentation_percent_at_90=at_90,
    )
