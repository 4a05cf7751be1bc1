"""A state decided on its own gets the same values as from the core, which decides all states together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.request.pod_kinds import TaskClass, Workload
from scheduler_ext.core.scores import DEFAULT_WEIGHTS
from scheduler_ext.sim.generator import generate_nodes, generate_pods
from scheduler_ext.sim.placement_policy import Target
from scheduler_ext.sim.policies.default import Default
from scheduler_ext.sim.scheduler import Scheduler, Settings
from scheduler_ext.sim.trace_workload import PodKind, task_class, workload_of
from scheduler_ext.sim.world import Cluster, NodesView, World
from tests.gpu_strategies import STRATEGIES
from tests.sim.server_side import clusters, kinds, lived_in, several_kinds, steps, workloads
from tests.sim.small import cluster_of, fits, share, whole, world_with

# Totals are rounded to this; the losses of numpy and Python before it may differ.
_LAST_DECIMAL = 1.01e-9
_weights = st.fixed_dictionaries(
    {name: st.sampled_from((0.0, weight, 1.0)) for name, weight in DEFAULT_WEIGHTS.items()}
)


NO_GPU = PodKind(1000, 1000)


class Together(Default):
    """All states by the core."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._by_core = True


class Forgetful(Default):
    most_remembered = 1000
    forgotten = 0

    def _forget(self) -> None:
        self.forgotten += 1
        super()._forget()


def agree(world: World, kind: PodKind, policies: Sequence[Default]) -> int:
    """The number of nodes that fit, equal in all ways for every node."""
    first, *others = (policy.evaluate(kind, NodesView(world)) for policy in policies)
    fits = first.score > -np.inf
    for other in others:
        assert fits.tolist() == (other.score > -np.inf).tolist()
        assert np.abs(first.score[fits] - other.score[fits]).max(initial=0.0) <= _LAST_DECIMAL
        if kind.is_share:
            assert first.slot[fits].tolist() == other.slot[fits].tolist()
    return int(fits.sum())


@given(clusters(), steps, workloads, several_kinds, _weights)
def test_one_by_one_is_as_together(
    cluster: Cluster,
    steps: list[tuple[PodKind, int, bool]],
    workload: Workload,
    kinds: list[PodKind],
    weights: Mapping[str, float],
) -> None:
    world, _ = lived_in(cluster, steps)
    target = Target(cluster, workload, knobs=SchedulingPolicy(weights=weights))
    alone, together = Default(target), Together(target)
    for kind in kinds:
        agree(world, kind, (alone, together))


@given(clusters(), steps, workloads, workloads, kinds)
def test_a_new_expectation_reaches_each_state(
    cluster: Cluster,
    steps: list[tuple[PodKind, int, bool]],
    before: Workload,
    after: Workload,
    kind: PodKind,
) -> None:
    world, _ = lived_in(cluster, steps)
    policies = [policy(Target(cluster, before)) for policy in (Default, Together)]
    agree(world, kind, policies)
    for policy in policies:
        policy.retarget(after)
    agree(world, kind, (*policies, Default(Target(cluster, after))))


@pytest.mark.parametrize(
    "strategy",
    [
        "fragmentation",
        *(pytest.param(each, marks=pytest.mark.process) for each in STRATEGIES if each != "fragmentation"),
    ],
)
def test_a_cluster_that_fills_up_is_filled_the_same(strategy: str) -> None:
    nodes = generate_nodes(30, seed=5)
    cluster, pods = Cluster.of(nodes), generate_pods(nodes, seed=5)
    world = World(cluster)
    target = Target(cluster, workload_of(pods), knobs=SchedulingPolicy(strategy=strategy))
    forgetful = Forgetful(target)
    policies = [Default(target), Together(target), forgetful]
    scheduler = Scheduler(world, Default(target), Settings(ties="first"))
    fitting = 0
    for pod in pods[:150]:
        fitting += agree(world, pod.kind, policies)
        placed = scheduler.choose(pod.kind)
        if placed is not None:
            world.place(pod.kind, placed.node, placed.slots)
    assert fitting > 500
    assert forgetful.forgotten > 2 or strategy != "fragmentation"


@pytest.mark.parametrize(
    ("node", "kinds"),
    [
        pytest.param((96_000, 20, "A100"), [whole(1), whole(20), share(300)], id="more GPUs than count"),
        pytest.param((96_000, 0, "A100"), [whole(1), share(300), NO_GPU], id="no GPU anywhere"),
        pytest.param((0, 2, "A100"), [whole(2, 0), share(300, 0)], id="no CPU"),
        pytest.param((10**12, 2, "A100"), [whole(1, 10**11), share(1, 10**12 - 1)], id="CPU without end"),
        pytest.param((96_000, 2, "A100"), [share(1), share(999)], id="the least and the largest share"),
        pytest.param((96_000, 2, "a100"), [share(9, models=("a100",)), whole(1)], id="models"),
    ],
)
@pytest.mark.parametrize("unknown", [0.0, 1.0])
def test_odd_nodes(node: tuple[int, int, str], kinds: list[PodKind], unknown: float) -> None:
    cluster = cluster_of(node, node)
    world = World(cluster)
    workload = Workload.of({task_class(kind): 1.0 for kind in kinds if kind.gpus}, unknown)
    policies = [policy(Target(cluster, workload)) for policy in (Default, Together)]
    for kind in kinds:
        agree(world, kind, policies)
        if fits(world, kind, 0):
            slots = np.flatnonzero(world.room_milli[:, 0] >= kind.gpu_milli)[: kind.gpus]
            world.place(kind, 0, tuple(slots.tolist()))
            agree(world, kind, policies)


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
    target = Target(world.cluster, _SIXES_AND_PAIRS, knobs=SchedulingPolicy(weights=weights))
    alone = Default(target)
    assert agree(world, share(300), (alone, Together(target))) == 1
    assert alone.evaluate(share(300), NodesView(world)).slot.tolist() == [slot]
