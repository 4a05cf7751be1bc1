"""Trials of the planner on a simulated cluster leave it as it was."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.features.gangs.simulation.jobs import ALONE, Job, JobPod
from scheduler_ext.sim.trace_workload import PodKind, TracePod
from scheduler_ext.sim.world import Cluster
from tests.features.gangs.simulation.stage import Stage
from tests.sim.small import cluster_of, clusters, fits, kinds, whole

_steps = st.lists(st.tuples(st.sampled_from(("put", "remove", "take back")), st.integers(0, 50)), max_size=12)


@given(clusters, st.lists(kinds, max_size=8), st.lists(kinds, min_size=1, max_size=3), _steps)
def test_trials_are_taken_back(
    cluster: Cluster, running: list[PodKind], asked: list[PodKind], steps: list[tuple[str, int]]
) -> None:
    stage = Stage(cluster, ALONE)
    for kind in running:
        stage.arrive(kind)
    world, places = stage.world, stage.places
    before = deepcopy(world)
    asks = Job(99, tuple(TracePod("p", kind) for kind in asked), 0.0, 1.0).pods
    there, put = stage.floor.running(), list[tuple[JobPod, str]]()
    for what, number in steps:
        ask = asks[number % len(asks)]
        if what == "put" and (place := places.best(ask)) is not None:
            places.put(ask, place.node)
            put.append((ask, place.node))
        elif what == "remove" and there:
            places.remove(there.pop(number % len(there)))
        elif what == "take back" and put:
            places.take_back(*put.pop(number % len(put)))
        placed = [stage.floor.of(each.uid) for each in there]
        held = sum(ask.kind.demand_milli for ask, _ in put)
        held += sum(each.pod.kind.demand_milli for each in placed if each is not None)
        assert world.allocated_milli == held
    places.rollback(0)
    assert (world.room_milli == before.room_milli).all()
    assert (world.cpu_free == before.cpu_free).all()
    assert (world.memory_free == before.memory_free).all()
    assert world.allocated_milli == before.allocated_milli


def test_the_pod_that_was_put_last_leaves_and_not_one_that_runs() -> None:
    stage = Stage(cluster_of((64_000, 4, "A100")), ALONE)
    running = stage.arrive(whole(1))
    asks = Job(9, (TracePod("p", whole(1)),) * 2, 0.0, 1.0).pods
    for ask in asks:
        stage.places.put(ask, "n0")
    (described,) = stage.floor.running()
    stage.places.remove(described)
    stage.places.take_back(asks[0], "n0")
    stage.places.take_back(asks[1], "n0")
    assert stage.world.room_milli[:, 0].tolist() == [1000] * 4
    stage.places.rollback(0)
    assert stage.held(running) == 1
    assert stage.world.room_milli[:, 0].tolist() == [0, 1000, 1000, 1000]


def test_pods_come_back_on_the_gpus_that_they_had() -> None:
    """Planned ones, too, whichever comes first."""
    stage = Stage(cluster_of((64_000, 4, "A100")), ALONE)
    stage.arrive(whole(1))
    (described,) = stage.floor.running()
    (ask,) = Job(9, (TracePod("p", whole(1)),), 0.0, 1.0).pods
    stage.places.put(ask, "n0")
    planned = replace(described, pod=replace(described.pod, uid="p"), planned=ask)
    stage.places.remove(described)
    stage.places.remove(planned)
    assert stage.world.room_milli[:, 0].tolist() == [1000] * 4
    stage.places.bring_back(planned)
    assert stage.world.room_milli[:, 0].tolist() == [1000, 0, 1000, 1000]
    stage.places.bring_back(described)
    assert stage.world.room_milli[:, 0].tolist() == [0, 0, 1000, 1000]


@given(clusters, kinds)
def test_nodes_within_reach_take_the_pod_when_they_are_empty(cluster: Cluster, kind: PodKind) -> None:
    stage = Stage(cluster, ALONE)
    (ask,) = Job(1, (TracePod("p", kind),), 0.0, 1.0).pods
    admitted = cluster.admits(kind.models if kind.gpus else ())
    expected = {
        name for node, name in enumerate(cluster.names) if admitted[node] and fits(stage.world, kind, node)
    }
    assert set(stage.places.within_reach(ask)) == expected
