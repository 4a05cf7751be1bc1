"""Searches on a large cluster, which look at few of its nodes."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from scheduler_ext.core.cycle.placing import BestNode
from scheduler_ext.features.gangs.planning.draining import Running
from scheduler_ext.features.gangs.planning.gang_reservation import part_of, reserve
from scheduler_ext.features.gangs.planning.gang_victims import victims
from scheduler_ext.features.gangs.planning.widening import AT_FIRST, widening
from tests.features.gangs.planning.memory_cluster import Ask, Host, MemoryCluster, gang, running, team

HOSTS = {f"n{i:03}": Host(8) for i in range(600)}
# A pod of all GPUs on each node; those on later nodes end earlier, and are less important.
PODS = [
    running(f"p{i:03}", name, 8, priority=600 - i, ends=1000.0 - i, started_at=0.0)
    for i, name in enumerate(HOSTS)
]


class Counting(MemoryCluster):
    removed = asked = 0

    def remove(self, running: Running) -> None:
        self.removed += 1
        super().remove(running)

    def best(self, ask: Ask, among: Collection[str] | None = None) -> BestNode | None:
        self.asked += 1
        return super().best(ask, among)


def test_places_are_found_without_a_trial_on_all_nodes() -> None:
    cluster, whole = Counting(HOSTS, PODS), gang(*team(4, 8))
    found = reserve(whole, cluster, [pod for pod, _ in PODS], {}, part_of(whole, cluster))
    assert found is not None
    assert sorted(found.nodes) == ["n596", "n597", "n598", "n599"]
    assert found.starts_at == 404.0
    assert cluster.removed < 1000


@pytest.mark.parametrize("evicts", [False, True], ids=["waits for them", "evicts them"])
def test_a_large_gang_is_not_placed_anew_for_each_pod_that_it(evicts: bool) -> None:
    """It needs more than half of the nodes, and all pods on each of them have to leave."""
    hosts = dict(list(HOSTS.items())[:AT_FIRST])
    pods = [running(f"{name}-{i}", name, 2, started_at=float(i)) for name in hosts for i in range(4)]
    cluster, whole = Counting(hosts, pods), gang(*team(40, 8, priority=1))
    if evicts:
        proposed = victims(
            whole, cluster, [pod for pod, _ in pods], {}, frozenset(hosts), proposals=lambda *_: ()
        )
        assert proposed is not None
        assert len(proposed.victims) == 160
    else:
        found = reserve(whole, cluster, [pod for pod, _ in pods], {}, frozenset(hosts))
        assert found is not None
        assert len(found.awaited) == 160
    assert cluster.asked < 4 * len(pods)


def test_more_nodes_are_looked_at_if_the_first_do_not_suffice() -> None:
    cluster, whole = MemoryCluster(HOSTS, PODS), gang(*team(100, 8))
    found = reserve(whole, cluster, [pod for pod, _ in PODS], {}, part_of(whole, cluster))
    assert found is not None
    assert found.starts_at == 500.0


def test_the_least_important_pods_leave_in_a_large_cluster() -> None:
    cluster, whole = MemoryCluster(HOSTS, PODS), gang(*team(3, 8, priority=1000))
    found = victims(whole, cluster, [pod for pod, _ in PODS], {}, frozenset(HOSTS), proposals=lambda *_: ())
    assert found is not None
    assert {pod.uid for pod in found.victims} == {"p597", "p598", "p599"}


def test_a_search_begins_with_few_nodes_and_ends_with_all() -> None:
    found = list(widening(frozenset(HOSTS), [pod for pod, _ in PODS], lambda pods: pods[0].ends_at))
    assert [len(nodes) for nodes in found] == [AT_FIRST, 4 * AT_FIRST, 600]
    assert found[0] == frozenset(list(HOSTS)[-AT_FIRST:])
