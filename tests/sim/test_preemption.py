"""The victims of a more important pod."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.sim.preemption import Residents, SimulatedPreemption
from scheduler_ext.sim.scheduler import Placement
from scheduler_ext.sim.trace_workload import PodKind, TracePod
from scheduler_ext.sim.world import Cluster, World
from tests.sim.small import cluster_of, clusters, fits, kinds, scheduler_of, share, whole

Running = list[tuple[PodKind, int, int, tuple[int, ...]]]


def residents_of(world: World, running: Running) -> Residents:
    """Pods of (kind, priority, node, slots), called by their number."""
    residents = Residents(world)
    for number, (kind, priority, node, slots) in enumerate(running):
        pod = TracePod(str(number), kind, priority=priority)
        residents.enter(pod, Placement(node, slots), until=1.0 + number)
    return residents


@pytest.mark.parametrize(
    ("running", "kind", "victims"),
    [
        pytest.param([(whole(1), 1, 0, (0,))], whole(2), set(), id="no pod of equal priority"),
        pytest.param(
            [(share(600), 0, 0, (0,)), (share(300), 0, 0, (1,))],
            whole(1),
            {"1"},
            id="who holds less, where either suffices",
        ),
        pytest.param(
            [(PodKind(6000, 1000), 0, 0, ()), (share(300), 0, 0, (0,))],
            whole(1, cpu_milli=4000),
            {"0"},
            id="who holds the CPU",
        ),
        pytest.param([(share(300), 0, 0, (0,))], whole(4), set(), id="no pod, where that would not help"),
    ],
)
def test_victims(running: Running, kind: PodKind, victims: set[str]) -> None:
    world = World(cluster_of((8000, 2, "A100")))
    preemption = SimulatedPreemption(world, residents_of(world, running), seed=1)
    chosen = preemption.victims(TracePod("urgent", kind, priority=1))
    assert {victim.pod.name for victim in chosen} == victims


def test_the_node_of_the_cheapest_victims() -> None:
    world = World(cluster_of(*[(8000, 1, "A100")] * 3))
    running: Running = [
        (whole(1), 0, 0, (0,)),
        (share(300), 0, 1, (0,)),
        (share(200), 1, 2, (0,)),
    ]
    residents = residents_of(world, running)
    for seed in range(5):
        chosen = SimulatedPreemption(world, residents, seed).victims(TracePod("urgent", whole(1), priority=2))
        # The smallest of the lowest priority, not the smallest of all.
        assert [victim.pod.name for victim in chosen] == ["1"]


@given(clusters, st.lists(st.tuples(kinds, st.integers(0, 2)), max_size=12), kinds)
def test_the_pod_fits_once_they_are_gone(
    cluster: Cluster, pods: list[tuple[PodKind, int]], kind: PodKind
) -> None:
    world = World(cluster)
    residents = Residents(world)
    scheduler = scheduler_of(world)
    for each, priority in pods:
        placement = scheduler.choose(each)
        if placement is not None:
            residents.enter(TracePod("p", each, priority=priority), placement, until=1.0)
    urgent = TracePod("urgent", kind, priority=1)
    if scheduler.choose(kind) is not None:
        return
    victims = SimulatedPreemption(world, residents, seed=1).victims(urgent)
    assert all(victim.pod.priority < 1 for victim in victims)
    assert len({victim.placement.node for victim in victims}) <= 1
    for victim in victims:
        residents.leave(victim)
    assert (scheduler.choose(kind) is not None) is bool(victims)
    # With any of them restored, the pod would not fit.
    for victim in victims:
        world.place(victim.pod.kind, victim.placement.node, victim.placement.slots)
        assert not fits(world, kind, victim.placement.node)
        world.release(victim.pod.kind, victim.placement.node, victim.placement.slots)


def test_a_pod_that_left_early_does_not_end_again() -> None:
    world = World(cluster_of((8000, 1, "A100")))
    residents = residents_of(world, [(share(300), 0, 0, (0,)), (share(300), 0, 0, (0,))])
    residents.leave(next(iter(residents.on(0))))
    assert residents.next_end(until=0.5) is None
    ending = residents.next_end(until=9.0)
    assert ending is not None
    ends, resident = ending
    assert ends == 2.0
    residents.leave(resident)
    assert residents.next_end(until=9.0) is None
    assert world.allocated_milli == 0
    assert list(residents.on(0)) == []
