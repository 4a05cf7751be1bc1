"""The reference policies and their preferences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.node.node import UNLIMITED
from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from scheduler_ext.sim.node_states import NodeStates
from scheduler_ext.sim.placement_policy import Target
from scheduler_ext.sim.policies import POLICIES
from scheduler_ext.sim.scheduler import Placement, Settings
from scheduler_ext.sim.trace_workload import PodKind, task_class
from scheduler_ext.sim.world import NodesView, World
from tests.sim.small import (
    cluster_of,
    fits,
    kinds,
    node_of,
    scheduler_of,
    share,
    whole,
    workloads,
    world_with,
    worlds,
)

TWO_NODES = cluster_of((8000, 2, "A100"), (8000, 2, "A100"))


@pytest.mark.parametrize("rule", ["published", "first", "random"])
@pytest.mark.parametrize(
    ("names", "published", "fixed"),
    [
        pytest.param(
            ("best-fit", "dot-product", "fgd", "gpu-clustering", "gpu-packing"),
            "first",
            False,
            id="the published comparison took the first",
        ),
        pytest.param(
            ("default", "least-allocated", "most-allocated"), "random", False, id="kube-scheduler takes any"
        ),
        pytest.param(("first-fit",), "first", True, id="first fit is its ties"),
        pytest.param(("random",), "random", True, id="random is its ties"),
    ],
)
def test_ties(names: tuple[str, ...], published: str, fixed: bool, rule: str) -> None:
    for name in names:
        scheduler = scheduler_of(World(TWO_NODES), name, Settings(ties=rule))
        assert scheduler.ties == (published if fixed or rule == "published" else rule)


@pytest.mark.parametrize(
    ("policy", "placed", "kind", "node", "slots"),
    [
        pytest.param(
            "best-fit", [(whole(1), 1, (0,))], whole(1), 1, (1,), id="best fit goes where less is left"
        ),
        pytest.param(
            "dot-product", [(whole(1), 1, (0,))], whole(1), 1, (1,), id="dot product avoids free GPUs"
        ),
        pytest.param(
            "gpu-packing",
            [(whole(1), 0, (0,)), (share(300), 1, (1,))],
            share(300),
            1,
            (1,),
            id="packing prefers a GPU in use to a free one of a used node",
        ),
        pytest.param(
            "gpu-packing",
            [(share(800), 1, (1,))],
            share(300),
            1,
            (0,),
            id="packing opens a GPU of a used node first",
        ),
        pytest.param(
            "gpu-clustering",
            [(share(300), 0, (0,)), (whole(1), 1, (0,))],
            whole(1),
            1,
            (1,),
            id="clustering joins pods that ask alike",
        ),
        pytest.param(
            "gpu-clustering",
            [(share(300), 0, (0,))],
            whole(1),
            1,
            (0,),
            id="clustering takes an empty node before others",
        ),
        pytest.param(
            "least-allocated", [(whole(1), 0, (0,))], whole(1), 1, (0,), id="least allocated spreads"
        ),
        pytest.param("most-allocated", [(whole(1), 1, (0,))], whole(1), 1, (1,), id="most allocated packs"),
        pytest.param("first-fit", [(whole(1), 1, (0,))], whole(1), 0, (0,), id="first fit takes the first"),
        pytest.param(
            "first-fit",
            [(share(300), 0, (1,))],
            share(300),
            0,
            (1,),
            id="first fit takes the tightest GPU",
        ),
    ],
)
def test_preferences(
    policy: str,
    placed: list[tuple[PodKind, int, tuple[int, ...]]],
    kind: PodKind,
    node: int,
    slots: tuple[int, ...],
) -> None:
    assert scheduler_of(world_with(TWO_NODES, *placed), policy).choose(kind) == Placement(node, slots)


class TestFgd:
    def test_fgd_uses_the_latest_expectation(self) -> None:
        world = world_with(TWO_NODES, (share(400), 0, (0,)), (share(500), 0, (1,)), (whole(2), 1, (0, 1)))
        scheduler = scheduler_of(world, "fgd", workload=Workload.of({TaskClass(shares_mib=(600,)): 1}))
        assert scheduler.choose(share(500)) == Placement(0, (1,))
        # A pod of 100 can use the rest of either, and the first of equals is taken.
        scheduler.retarget(Workload.of({TaskClass(shares_mib=(100,)): 1}))
        assert scheduler.choose(share(500)) == Placement(0, (0,))

    def test_scores_are_whole_numbers_and_50_where_nothing_changes(self) -> None:
        world = World(TWO_NODES)
        expected = Workload.of({TaskClass(cpu_milli=1000, gpus=1): 1})
        fgd = POLICIES["fgd"](Target(TWO_NODES, expected))
        view = NodesView(world)
        assert fgd.evaluate(whole(1), view).score.tolist() == [50.0, 50.0]
        # A share of 300 makes 700 unusable: 100 * sigmoid(-0.7) = 33.2.
        assert fgd.evaluate(share(300), view).score.tolist() == [33.0, 33.0]


@given(worlds, kinds, workloads, st.sampled_from(list(POLICIES)))
def test_whatever_is_chosen_has_room(world: World, kind: PodKind, workload: Workload, policy: str) -> None:
    placement = scheduler_of(world, policy, workload=workload).choose(kind)
    admits = world.cluster.admits(kind.models)
    fitting = [node for node in range(len(world.cluster)) if fits(world, kind, node) and admits[node]]
    if not fitting:
        assert placement is None
        return
    assert placement is not None
    assert placement.node in fitting
    # Raises if it is given twice.
    world.place(kind, placement.node, placement.slots)


@pytest.mark.parametrize("name", list(POLICIES))
def test_as_much_cpu_as_a_trace_may_ask_is_placed(name: str) -> None:
    cluster = cluster_of((10**12, 2, "A100"), (8000, 2, "A100"))
    world, large = World(cluster), share(300, cpu_milli=10**12 - 1000)
    expected = Workload.of({task_class(large): 1, task_class(share(500)): 1})
    scheduler = scheduler_of(world, name, workload=expected)
    assert node_of(scheduler, large) == 0
    world.place(large, 0, (0,))
    assert node_of(scheduler, large) is None


def test_the_largest_node_has_cpu_left_to_the_default() -> None:
    # Amounts are capped in the core: the part beyond the cap is free all the same.
    states = NodeStates(cluster_of((10**12, 2, "A100")))
    free = [states.key(0, [], cpu).cpu_free_milli for cpu in (10**12, 10**12 - 3 * 10**9, 1000)]
    assert free[0] == free[1] == UNLIMITED
    assert free[2] < UNLIMITED


def test_scores_of_a_part_are_that_part_of_all_scores() -> None:
    world = world_with(TWO_NODES, (share(300), 1, (0,)), (whole(1), 0, (1,)))
    for name in POLICIES.keys() - {"default"}:
        policy = POLICIES[name](Target(TWO_NODES, Workload()))
        all_scores = policy.evaluate(share(200), NodesView(world)).score
        part = policy.evaluate(share(200), NodesView(world, np.array([1]))).score
        assert part.tolist() == all_scores[1:].tolist(), name
