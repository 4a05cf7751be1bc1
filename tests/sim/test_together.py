"""Pods of a trace decided together: on the same world, and in whole runs."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.sim.protocols import PROTOCOLS, run_inflation
from scheduler_ext.sim.scheduler import Settings
from scheduler_ext.sim.together import Batches, TriedPlaces
from scheduler_ext.sim.trace_workload import PodKind, TracePod
from scheduler_ext.sim.world import NodeShape, World
from tests.sim.small import (
    SMALL,
    cluster_of,
    fits,
    kinds,
    scheduler_of,
    share,
    whole,
    without_pace,
    workloads,
    worlds,
)
from tests.sim.watched import watched

DEFAULT = replace(SMALL, policy="default", measured=0.5)

_batches = st.lists(st.builds(TracePod, st.just("pod"), kinds), min_size=2, max_size=12)


def one_by_one(world: World, policy: str, pods: list[TracePod], workload: Workload) -> list[PodKind]:
    """The pods that find a place one after the other; they are in the world afterwards."""
    scheduler, placed = scheduler_of(world, policy, workload=workload), []
    for pod in pods:
        placement = scheduler.choose(pod.kind)
        if placement is not None:
            world.place(pod.kind, placement.node, placement.slots)
            placed.append(pod.kind)
    return placed


def admitting(world: World, kind: PodKind) -> Bools:
    return world.cluster.admits(kind.models if kind.gpus else ())


@given(worlds, _batches, st.sampled_from(("default", "best-fit", "first-fit")), workloads)
def test_a_batch_is_placed_at_least_as_well_as_one_by_one(
    world: World, pods: list[TracePod], policy: str, workload: Workload
) -> None:
    before = deepcopy(world)
    alone = one_by_one(deepcopy(world), policy, pods, workload)
    scheduler = scheduler_of(world, policy, workload=workload)
    placements = Batches(scheduler, world).choose(pods)
    assert (world.room_milli == before.room_milli).all()
    assert (world.cpu_free == before.cpu_free).all()
    assert (world.memory_free == before.memory_free).all()
    placed, waiting = [], []
    for pod, placement in zip(pods, placements, strict=True):
        if placement is None:
            waiting.append(pod.kind)
            continue
        assert admitting(world, pod.kind)[placement.node]
        world.place(pod.kind, placement.node, placement.slots)
        placed.append(pod.kind)
    for kind in waiting:
        assert not any(fits(world, kind, int(node)) for node in np.flatnonzero(admitting(world, kind)))
    assert len(placed) >= len(alone)
    assert sum(kind.demand_milli for kind in placed) >= sum(kind.demand_milli for kind in alone)
    assert len(scheduler.latencies_s) == len(pods)


def test_a_whole_gpu_is_for_the_pod_that_uses_all_of_it() -> None:
    world = World(cluster_of((8000, 1, "T4")))
    pods = [TracePod("share", share(810)), TracePod("whole", whole(1))]
    first, second = Batches(scheduler_of(world), world).choose(pods)
    assert first is None
    assert second is not None
    assert second.slots == (0,)


def test_a_pod_put_again_has_its_gpu_until_all_are_taken_back() -> None:
    world = World(cluster_of((8000, 4, "T4")))
    tried, pod = TriedPlaces(scheduler_of(world, "random"), world), TracePod("share", share(300))
    seen = set()
    for _ in range(20):
        tried.put(pod, "n0")
        tried.rollback(0)
        tried.put(pod, "n0")
        tried.put(pod, "n0")
        tried.rollback(1)
        (first,) = tried.undo()
        tried.put(pod, "n0")
        seen.add(first[1].slots)
        tried.rollback(0)
    assert len(seen) > 1


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
@pytest.mark.parametrize("priorities", ["none", "drawn"])
@pytest.mark.parametrize("batch", [1, 8])
def test_runs_in_batches_account_for_every_pod(protocol: str, priorities: str, batch: int) -> None:
    experiment = replace(
        DEFAULT, load=1.6, priorities=priorities, batch=batch, burst=8, settings=Settings(ties="first")
    )
    # Each place in the world is checked.
    with watched():
        run = PROTOCOLS[protocol](experiment).run
    assert run.batch == batch
    assert run.arrived_milli == run.allocated_milli + run.rejected_milli
    assert run.rejected_milli > 0
    assert without_pace(PROTOCOLS[protocol](experiment).run) == without_pace(run)


def test_the_same_pods_arrive_whatever_the_batch() -> None:
    pods = (TracePod("share", share(810)), TracePod("whole", whole(1)))
    nodes = tuple(NodeShape(f"n{number}", 8000, 100_000, 1, "T4") for number in range(4))
    runs = [
        run_inflation(replace(DEFAULT, nodes=nodes, pods=pods, load=2.0, batch=batch, burst=8)).run
        for batch in (1, 8)
    ]
    assert runs[0].arrived_milli == runs[1].arrived_milli
    # Each GPU is for a pod that uses all of it.
    assert runs[0].allocated_milli < runs[1].allocated_milli == 4000
