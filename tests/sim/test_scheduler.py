"""kube-scheduler in miniature: its memory is true, and the winner among equals."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.sim.placement_policy import Evaluation, Policy, Target
from scheduler_ext.sim.policies import POLICIES
from scheduler_ext.sim.policies.published import BestFit
from scheduler_ext.sim.scheduler import INTREE_SCORES, Scheduler, Settings
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import Cluster, NodesView, World
from tests.sim.small import cluster_of, clusters, kinds, node_of, scheduler_of, share, whole, workloads

FIRST = Settings(ties="first")
LOCAL = [name for name in POLICIES if name != "random"]


@given(
    clusters,
    workloads,
    st.sampled_from(LOCAL),
    st.lists(st.tuples(kinds, st.booleans()), min_size=1, max_size=25),
)
def test_remembered_scores_equal_new_ones(
    cluster: Cluster, workload: Workload, policy: str, steps: list[tuple[PodKind, bool]]
) -> None:
    world = World(cluster)
    remembering = scheduler_of(world, policy, workload=workload)
    running = []
    for kind, leaves in steps:
        placement = remembering.choose(kind)
        assert placement == scheduler_of(world, policy, workload=workload).choose(kind)
        if placement is not None:
            world.place(kind, placement.node, placement.slots)
            running.append((kind, placement.node, placement.slots))
        if leaves and running:
            world.release(*running.pop(0))


def test_first_ties_go_to_the_first_node() -> None:
    world = World(cluster_of(*[(8000, 1, "A100")] * 4))
    for expected in range(4):
        assert node_of(scheduler_of(world, "fgd"), whole(1)) == expected
        world.place(whole(1), expected, (0,))


def test_random_ties_go_to_each_alike() -> None:
    world = World(cluster_of(*[(8000, 1, "A100")] * 4))
    scheduler = scheduler_of(world, "fgd", Settings(ties="random"))
    winners = Counter(node_of(scheduler, whole(1)) for _ in range(400))
    assert winners.keys() == {0, 1, 2, 3}
    assert min(winners.values()) > 60


def test_points_lose_no_best() -> None:
    cluster = cluster_of(*[(8000 + 1000 * index, 2, "A100") for index in range(30)])
    world = World(cluster)
    for index in range(0, 30, 3):
        world.place(share(300), index, (0,))
    raw, mapped = scheduler_of(world), scheduler_of(world, settings=Settings(ties="first", points=True))
    assert raw.choose(share(200)) == mapped.choose(share(200))


class TestIntree:
    def test_least_allocated_outweighs_a_policy_that_packs(self) -> None:
        world = World(cluster_of((8000, 2, "A100"), (8000, 2, "A100")))
        world.place(whole(1, cpu_milli=4000), 1, (0,))
        spread = Settings(ties="first", intree={"NodeResourcesFit": 10})
        assert node_of(scheduler_of(world, "most-allocated"), whole(1)) == 1
        assert node_of(scheduler_of(world, "most-allocated", spread), whole(1)) == 0

    def test_balance_is_what_the_pod_changes_not_what_there_is_then(self) -> None:
        world = World(cluster_of((8000, 1, "A100"), (8000, 1, "A100")))
        world.place(PodKind(0, 100_000), 1, ())
        # A quarter of the CPU: node 0, which was even, falls from 100 to 87, and node 1 rises from 50 to 62.
        kind = PodKind(2000, 0)
        assert INTREE_SCORES["NodeResourcesBalancedAllocation"](kind, NodesView(world)).tolist() == [68, 81]
        settings = Settings(ties="first", intree={"NodeResourcesBalancedAllocation": 1})
        assert node_of(scheduler_of(world, "first-fit", settings), kind) == 1


class _Stub(Policy):
    """A policy that remembers the fullest node, and that refuses all others if it `refuses`."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.seen: list[int] = []

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        self.seen.append(len(nodes))
        room = nodes.room_milli.sum(0)
        score = -room.astype(np.float64)
        if self.refuses:
            score[1:] = -np.inf
        return Evaluation(score, room.astype(np.int32))


class TestViewOfPolicies:
    def test_one_that_refuses_nodes_has_the_say(self) -> None:
        world = World(cluster_of((8000, 1, "A100"), (8000, 4, "A100")))
        assert node_of(Scheduler(world, _Stub(refuses=True), FIRST), whole(1)) == 0

    def test_policies_see_only_nodes_with_the_gpus(self) -> None:
        world = World(cluster_of((8000, 1, "A100"), (8000, 0, ""), (8000, 4, "A100"), (8000, 4, "T4")))
        stub = _Stub()
        Scheduler(world, stub, FIRST).choose(whole(2, models=("A100",)))
        assert stub.seen == [1]

    def test_policies_are_asked_about_changed_nodes_only(self) -> None:
        world = World(cluster_of(*[(8000, 4, "A100")] * 4))
        stub = _Stub()
        scheduler = Scheduler(world, stub, FIRST)
        scheduler.choose(whole(1))
        world.place(whole(1), 2, (0,))
        assert node_of(scheduler, whole(1)) == 2
        assert stub.seen == [4, 1]


class Counted(BestFit):
    """Counts the nodes in its requests."""

    asked = 0

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        self.asked += len(nodes)
        return super().evaluate(kind, nodes)


class Forgetful(Scheduler):
    most_kept = 1


@pytest.mark.parametrize(("scheduler", "asked"), [(Scheduler, 3 * 2), (Forgetful, 6 * 2)])
def test_scores_of_more_kinds_than_are_kept_are_asked_for_again(
    scheduler: type[Scheduler], asked: int
) -> None:
    world = World(cluster_of((8000, 2, "A100"), (8000, 2, "A100")))
    policy = Counted(Target(world.cluster, Workload()))
    chooses = scheduler(world, policy, Settings(ties="first"))
    kinds = [share(300), share(400), share(500)]
    first, again = ([chooses.choose(kind) for kind in kinds] for _ in range(2))
    assert again == first
    assert policy.asked == asked
