"""Small clusters and pods, and their Hypothesis strategies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import strategies as st
from msgspec import structs

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from scheduler_ext.sim.experiment import Experiment
from scheduler_ext.sim.generator import generate_nodes, generate_pods
from scheduler_ext.sim.placement_policy import Target
from scheduler_ext.sim.policies import POLICIES
from scheduler_ext.sim.scheduler import Scheduler, Settings
from scheduler_ext.sim.simulation_report import Run
from scheduler_ext.sim.trace_workload import PodKind, TracePod
from scheduler_ext.sim.world import Cluster, TraceNode, World

MODELS = ("A100", "T4")
NODES = tuple(generate_nodes(12, seed=5))
PODS = tuple(generate_pods(NODES, seed=5))
SMALL = Experiment(trace="small", nodes=NODES, pods=PODS, policy="fgd", seed=42)
# Amounts meet often, so that pods fit about as often as not and several nodes are alike.
CPUS_MILLI = (1000, 4000, 8000, 16000)
SHARES_MILLI = (100, 250, 300, 500, 700, 999)


def cluster_of(*nodes: tuple[int, int, str], memory_mib: int = 100_000) -> Cluster:
    """Nodes of (cpu_milli, gpus, model), called n0, n1..."""
    return Cluster.of(
        [
            TraceNode(f"n{index}", cpu_milli, memory_mib, gpus, model)
            for index, (cpu_milli, gpus, model) in enumerate(nodes)
        ]
    )


def share(milli: int, cpu_milli: int = 1000, models: tuple[str, ...] = ()) -> PodKind:
    return PodKind(cpu_milli, 1000, 1, milli, models)


def whole(gpus: int, cpu_milli: int = 1000, models: tuple[str, ...] = ()) -> PodKind:
    return PodKind(cpu_milli, 1000, gpus, 1000, models)


def pods_of(*kinds: PodKind) -> tuple[TracePod, ...]:
    return tuple(TracePod("p", kind) for kind in kinds)


def without_pace(run: Run) -> Run:
    """A run without what depends on the machine."""
    return structs.replace(run, decisions_per_second=0.0, p99_ms=0.0)


def refusal(call: Callable[[], object]) -> str:
    """The one line that says why the input of a simulation cannot be used."""
    with pytest.raises(SimulationError) as raised:
        call()
    message = str(raised.value)
    assert "\n" not in message
    return message


def world_with(cluster: Cluster, *placed: tuple[PodKind, int, tuple[int, ...]]) -> World:
    world = World(cluster)
    for kind, node, slots in placed:
        world.place(kind, node, slots)
    return world


def fits(world: World, kind: PodKind, node: int) -> bool:
    """Whether a node has room for the pod now, without regard to the model."""
    if kind.cpu_milli > world.cpu_free[node] or kind.memory_mib > world.memory_free[node]:
        return False
    return int(np.count_nonzero(world.room_milli[:, node] >= kind.gpu_milli)) >= kind.gpus or not kind.gpus


def scheduler_of(
    world: World,
    policy: str = "best-fit",
    settings: Settings | None = None,
    workload: Workload | None = None,
    seed: int = 0,
) -> Scheduler:
    target = Target(world.cluster, workload or Workload(), seed)
    return Scheduler(world, POLICIES[policy](target), settings or Settings(ties="first"), seed)


def node_of(scheduler: Scheduler, kind: PodKind) -> int | None:
    """The node that is chosen for a pod."""
    placement = scheduler.choose(kind)
    return None if placement is None else placement.node


_models = st.sampled_from([(), ("A100",), ("T4",), MODELS])
_cpus = st.sampled_from(CPUS_MILLI)
kinds = st.one_of(
    st.builds(lambda cpu: PodKind(cpu, 1000), _cpus),
    st.builds(share, st.sampled_from(SHARES_MILLI), _cpus, _models),
    st.builds(whole, st.sampled_from((1, 2, 4)), _cpus, _models),
)
clusters = st.lists(
    st.tuples(st.sampled_from((8000, 16000, 32000)), st.sampled_from((0, 1, 2, 4)), st.sampled_from(MODELS)),
    min_size=1,
    max_size=6,
).map(lambda nodes: cluster_of(*nodes, (8000, 1, "A100")))
_classes = st.one_of(
    st.builds(TaskClass, cpu_milli=_cpus),
    st.builds(
        lambda cpu, milli, models: TaskClass(cpu_milli=cpu, shares_mib=(milli,), models=models),
        _cpus,
        st.sampled_from(SHARES_MILLI),
        _models,
    ),
    st.builds(TaskClass, cpu_milli=_cpus, gpus=st.sampled_from((1, 2, 4, 8)), models=_models),
)
workloads = st.dictionaries(_classes, st.integers(1, 9), max_size=8).map(
    lambda counts: Workload.of({task: float(count) for task, count in counts.items()})
)


def busy_world(cluster: Cluster, pods: list[PodKind]) -> World:
    """A world with the pods that find a place, each in the first that fits."""
    world = World(cluster)
    scheduler = scheduler_of(world, "first-fit")
    for kind in pods:
        placement = scheduler.choose(kind)
        if placement is not None:
            world.place(kind, placement.node, placement.slots)
    return world


worlds = st.builds(busy_world, clusters, st.lists(kinds, max_size=12))
