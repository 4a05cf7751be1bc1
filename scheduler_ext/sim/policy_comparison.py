"""Policies compared on a cluster with running pods: where each would place the same new pods."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler_ext.core.cycle.policy import SchedulingPolicy as Knobs
from scheduler_ext.sim.arrivals import with_spot
from scheduler_ext.sim.cluster_dump import ClusterDump
from scheduler_ext.sim.custom_policy import CustomPolicy
from scheduler_ext.sim.placement_policy import Target
from scheduler_ext.sim.policies import POLICIES
from scheduler_ext.sim.policies.fgd import TARGET_PART, FragmentationMeasure
from scheduler_ext.sim.scheduler import Scheduler, Settings
from scheduler_ext.sim.trace_workload import TracePod, workload_of
from scheduler_ext.sim.world import Cluster, NodesView, World

# As for the product's own decision in `simulate cluster`: of equal nodes, the first by name.
_TIES = "first"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    """The cluster after one policy has placed the new pods, all but those of the names `not_placed`.
    `gpus_placed` are the GPUs of the placed pods. The percentages and the value, in US dollars, are
    of all GPUs, running pods included."""

    policy: str
    pods: int
    not_placed: tuple[str, ...]
    gpus_placed: float
    allocated_percent: float
    allocated_value_per_hour: float
    fragmentation_percent: float

    @property
    def pods_placed(self) -> int:
        return self.pods - len(self.not_placed)


def compare_policies(
    dump: ClusterDump,
    pods: Sequence[TracePod],
    policies: Mapping[str, CustomPolicy | None],
    knobs: Knobs,
) -> Iterator[PolicyResult]:
    """The result of each policy, which places the pods in their order without evicting others. The expected
    demand is that of the pods on the cluster and of the new pods. Raises SimulationError for a policy with a
    mistake."""
    cluster = Cluster.of(dump.nodes, knobs.values)
    workload = workload_of([*dump.trace_pods(dump.alive(), noted=False), *pods])
    pods = with_spot(pods, cluster)
    measure = FragmentationMeasure(cluster, workload.top(TARGET_PART))
    for name, custom in policies.items():
        world = World(cluster)
        dump.hold(world)
        held_milli = world.allocated_milli
        policy = (custom or POLICIES[name])(Target(cluster, workload, knobs=knobs))
        scheduler = Scheduler(world, policy, Settings(ties=_TIES))
        not_placed = []
        for pod in pods:
            placement = scheduler.choose(pod.kind)
            if placement is None:
                not_placed.append(pod.name)
            else:
                world.place(pod.kind, placement.node, placement.slots)
        fragmented_milli = float(measure.of(NodesView(world)).sum())
        yield PolicyResult(
            policy=name,
            pods=len(pods),
            not_placed=tuple(not_placed),
            gpus_placed=(world.allocated_milli - held_milli) / 1000,
            allocated_percent=100 * world.allocated_milli / cluster.capacity_milli,
            allocated_value_per_hour=world.allocated_value,
            fragmentation_percent=100 * fragmented_milli / cluster.capacity_milli,
        )
