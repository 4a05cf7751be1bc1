"""The purpose of each shipped weight of the default policy: nodes that one term alone prefers."""

from __future__ import annotations

import pytest

from scheduler_ext.core.cycle.policy import SchedulingPolicy as Knobs
from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from scheduler_ext.core.scores import DEFAULT_WEIGHTS
from scheduler_ext.sim.arrivals import with_spot
from scheduler_ext.sim.placement_policy import Target
from scheduler_ext.sim.policies import POLICIES
from scheduler_ext.sim.scheduler import Scheduler, Settings
from scheduler_ext.sim.trace_workload import PodKind, TracePod
from scheduler_ext.sim.world import Cluster, TraceNode, World
from tests.sim import small
from tests.sim.small import cluster_of, share

Placed = list[tuple[PodKind, int, tuple[int, ...]]]
# Whole GPUs with four cores each. No node here gets so low that none of them fits.
WITH_FOUR_CORES = Workload.of({TaskClass(cpu_milli=4000, gpus=1): 1})
# Four of the one or two of the other fill a GPU: a residual is worth its part of the GPU, in quarters.
MOSTLY_HALVES = Workload.of({TaskClass(shares_mib=(250,)): 1, TaskClass(shares_mib=(500,)): 9})
TWO_ALIKE = cluster_of((8000, 1, "A100"), (8000, 1, "A100"))


def node_of(world: World, workload: Workload, kind: PodKind, without: str | None = None) -> int | None:
    """The node that the default policy chooses with the shipped weights, one of which may be 0."""
    weights = {name: 0.0 if name == without else weight for name, weight in DEFAULT_WEIGHTS.items()}
    knobs = Knobs(weights=weights)
    policy = POLICIES["default"](Target(world.cluster, workload, knobs=knobs))
    return small.node_of(Scheduler(world, policy, Settings(ties="first")), kind)


@pytest.mark.parametrize(
    ("term", "cluster", "placed", "workload", "kind"),
    [
        # 2.4 cores beside each GPU are balance. The first node's GPU has 3.3 times that, and would have 1.7:
        # it loses 0.05 GPUs of value. Each of the second's has 6.7 times that, and loses almost nothing.
        pytest.param(
            "balance",
            cluster_of((8000, 1, "A100"), (32_000, 2, "A100")),
            [],
            WITH_FOUR_CORES,
            PodKind(4000, 1000),
            id="a pod without GPUs takes no CPU where a free GPU has little more than it needs",
        ),
        # Of the first node's three GPUs about 2.8 are usable, and about 1.4 of two would be; the second's
        # four become three.
        pytest.param(
            "balance",
            cluster_of((12_000, 3, "A100"), (64_000, 4, "A100")),
            [],
            WITH_FOUR_CORES,
            PodKind(8000, 1000, 1, 1000),
            id="nor does one that asks much CPU beside its GPU leave two GPUs four cores",
        ),
        # Either node loses a quarter of a GPU. Most pods cannot use the rest on the first, all can use
        # the rest on the second.
        pytest.param(
            "fragmentation",
            TWO_ALIKE,
            [(share(500), 0, (0,)), (share(250), 1, (0,))],
            MOSTLY_HALVES,
            share(250),
            id="a share leaves the half of a GPU to those who need a half",
        ),
    ],
)
def test_a_term_decides(
    term: str, cluster: Cluster, placed: Placed, workload: Workload, kind: PodKind
) -> None:
    """The term prefers the second node; without it the first one wins, which is fuller."""
    world = World(cluster)
    for held, node, slots in placed:
        world.place(held, node, slots)
    assert node_of(world, workload, kind) == 1
    assert node_of(world, workload, kind, without=term) == 0


@pytest.mark.parametrize(
    ("priority", "spot_node", "node"),
    [
        pytest.param(-10, 1, 1, id="a pod of low priority goes to the spot node"),
        pytest.param(10, 1, 0, id="one of high priority to the other"),
        pytest.param(10, 0, 1, id="though the names are in another order"),
        pytest.param(0, 1, 0, id="and the first one wins"),
    ],
)
def test_spot_nodes_by_priority(priority: int, spot_node: int, node: int) -> None:
    shapes = [TraceNode(f"n{i}", 8000, 100_000, 1, "A100", spot=i == spot_node) for i in range(2)]
    cluster = Cluster.of(shapes)
    (pod,) = with_spot([TracePod("p", PodKind(4000, 1000, 1, 1000), priority=priority)], cluster)
    assert node_of(World(cluster), WITH_FOUR_CORES, pod.kind) == node


def test_without_spot_nodes_priorities_distinguish_no_pods() -> None:
    cluster = Cluster.of([TraceNode("n", 8000, 100_000, 1, "A100")])
    pods = [TracePod("p", share(250), priority=-10), TracePod("q", share(250), priority=10)]
    assert with_spot(pods, cluster) == pods


def test_the_cheaper_node_of_one_model_comes_first() -> None:
    shapes = [TraceNode(f"n{i}", 8000, 100_000, 1, "A100", value) for i, value in enumerate((2.0, 0.5))]
    assert node_of(World(Cluster.of(shapes)), WITH_FOUR_CORES, PodKind(4000, 1000, 1, 1000)) == 1
