"""The inflation protocol: pods come one by one and stay, until more was asked than the cluster has.

Weng et al., "Beware of Fragmentation" (USENIX ATC'23). A pod that fits nowhere is dropped, and counts as
arrived; one that fits anywhere is placed.
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
from scheduler_ext.sim.simulation_report import Run
from scheduler_ext.sim.tally import Tally, models_of, pace, rooms_at_end
from scheduler_ext.sim.world import Cluster, NodesView, World

# What loads besides the last one a report tells of, in per cent of the capacity.
FULL_PERCENT = 100
FRAGMENTATION_PERCENT = 90


def run_inflation(experiment: Experiment) -> Outcome:
    """Run it; raises SimulationError where it cannot be run as asked."""
    random = np.random.default_rng(experiment.seed)
    cluster = Cluster.of(experiment.nodes)
    # The order comes first, so that it is the same whatever pods come.
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
        # Before anybody came.
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
    allocation = curves.allocation_percent
    last = round(experiment.load * 100)
    told = dict.fromkeys(load for load in (FULL_PERCENT, last) if load <= last)
    decisions_per_second, p99_ms = pace(scheduler.latencies_s)
    run = Run(
        trace=experiment.trace,
        policy=experiment.policy,
        seed=experiment.seed,
        allocation_percent={str(load): at_load(allocation, load) for load in told},
        unallocated_gpus=(world.cluster.capacity_milli - world.allocated_milli) / 1000,
        fragmentation_percent_at_90=(
            at_load(curves.fragmentation_percent, FRAGMENTATION_PERCENT)
            if last >= FRAGMENTATION_PERCENT
            else None
        ),
        arrived_milli=tally.arrived_milli,
        allocated_milli=tally.allocated_milli,
        rejected_milli=tally.rejected_milli,
        rejected_by_class=dict(sorted(tally.rejected.items())),
        decisions_per_second=decisions_per_second,
        p99_ms=p99_ms,
    )
    return Outcome(
        run=run,
        allocation_percent=allocation,
        fragmentation_percent=curves.fragmentation_percent,
        rooms_milli=rooms_at_end(world),
        models=models_of(world),
    )
