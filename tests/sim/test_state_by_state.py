"""A state decided on its own gets what all states decided together get from the core."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.policy import Policy
from scheduler_ext.core.scores import DEFAULT_WEIGHTS
from scheduler_ext.core.workload import TaskClass, Workload
from scheduler_ext.sim.expectation import workload_of
from scheduler_ext.sim.generator import generate_nodes, generate_pods
from scheduler_ext.sim.policies.default import Default
from scheduler_ext.sim.policy import Target
from scheduler_ext.sim.scheduler import Scheduler, Settings
from scheduler_ext.sim.workload import PodKind, TracePod
from scheduler_ext.sim.world import Cluster, NodesView, World
from tests.sim.server_side import clusters, kinds, lived_in, several_kinds, steps, workloads
from tests.sim.small import cluster_of, share, world_with

# Totals are rounded to this, and what numpy and Python lose before may differ.
_LAST_DECIMAL = 1.01e-9
_weights = st.fixed_dictionaries(
    {name: st.sampled_from((0.0, weight, 1.0)) for name, weight in DEFAULT_WEIGHTS.items()}
)


class OneByOne(Default):
    few = 10**9


class Together(Default):
    few = 0


def agree(world: World, target: Target, kinds: list[PodKind]) -> int:
    """How many nodes fit, once it is shown that both give every node the same."""
    alone, together = OneByOne(target), Together(target)
    fitting = 0
    for kind in kinds:
        one, all_ = (policy.evaluate(kind, NodesView(world)) for policy in (alone, together))
        fits = one.score > -np.inf
        assert fits.tolist() == (all_.score > -np.inf).tolist()
        assert np.abs(one.score[fits] - all_.score[fits]).max(initial=0.0) <= _LAST_DECIMAL
        if kind.is_share:
            assert one.slot[fits].tolist() == all_.slot[fits].tolist()
        fitting += int(fits.sum())
    return fitting


@given(clusters(), steps, workloads, several_kinds, _weights)
def test_one_by_one_is_as_together(
    cluster: Cluster,
    steps: list[tuple[PodKind, int, bool]],
    workload: Workload,
    kinds: list[PodKind],
    weights: Mapping[str, float],
) -> None:
    world, _ = lived_in(cluster, steps)
    agree(world, Target(cluster, workload, knobs=Policy(weights=weights)), kinds)


@given(clusters(), steps, workloads, workloads, kinds)
def test_what_is_expected_anew_is_expected_of_each_state(
    cluster: Cluster,
    steps: list[tuple[PodKind, int, bool]],
    before: Workload,
    after: Workload,
    kind: PodKind,
) -> None:
    world, _ = lived_in(cluster, steps)
    anew, at_once = OneByOne(Target(cluster, before)), Together(Target(cluster, after))
    anew.evaluate(kind, NodesView(world))
    anew.retarget(after)
    one, all_ = (policy.evaluate(kind, NodesView(world)).score for policy in (anew, at_once))
    assert np.allclose(one, all_, rtol=0.0, atol=_LAST_DECIMAL)


def test_a_cluster_that_fills_up_is_filled_the_same() -> None:
    nodes = generate_nodes(60, seed=5)
    cluster, pods = Cluster.of(nodes), generate_pods(nodes, seed=5)
    world = World(cluster)
    target = Target(cluster, workload_of(pods))
    scheduler = Scheduler(world, OneByOne(target), Settings(ties="first"))
    fitting = 0
    for number, pod in enumerate(pods[:600]):
        placed = scheduler.choose(pod.kind)
        if placed is not None:
            world.place(pod.kind, placed.node, placed.slots)
        if number % 60 == 0:
            fitting += agree(world, target, sorted({each.kind for each in pods}, key=repr)[::3])
    assert fitting > 1000


# Shares of 600 and pairs of whole GPUs.
_SIXES_AND_PAIRS = Workload.of({TaskClass(shares_mib=(600,)): 1.0, TaskClass(gpus=2): 1.0})


@pytest.mark.parametrize(
    ("weights", "slot"),
    [
        pytest.param({"residual-value": 0.25}, 1, id="a GPU is opened where the others keep room for a 600"),
        pytest.param({"residual-value": 0.25, "whole-gpus": 5.0}, 0, id="but not where a pair is lost by it"),
        pytest.param({"residual-value": 0.25, "fragmentation": 5.0}, 0, id="nor where it is spoilt by it"),
        pytest.param({"residual-value": 1e-6, "tightness": 1.0}, 0, id="costs that are equal but for a hair"),
    ],
)
def test_the_gpu_of_a_share(weights: dict[str, float], slot: int) -> None:
    world = world_with(cluster_of((32_000, 3, "A100")), (share(400), 0, (0,)))
    target = Target(world.cluster, _SIXES_AND_PAIRS, knobs=Policy(weights=weights))
    assert agree(world, target, [share(300)]) == 1
    chosen = OneByOne(target).evaluate(share(300), NodesView(world)).slot.tolist()
    assert chosen == [slot]


@pytest.mark.parametrize("strategy", ["binpack", "spread"])
def test_other_strategies_are_the_cores_alone(strategy: str) -> None:
    nodes = generate_nodes(12, seed=6)
    cluster, pods = Cluster.of(nodes), generate_pods(nodes, seed=6)
    target = Target(cluster, workload_of(pods), knobs=Policy(strategy=strategy))
    world = World(cluster)
    assert agree(world, target, [pod.kind for pod in _distinct(pods)][:20])


def _distinct(pods: list[TracePod]) -> list[TracePod]:
    return list({pod.kind: pod for pod in pods}.values())
