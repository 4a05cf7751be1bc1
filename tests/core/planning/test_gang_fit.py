"""Whether the members of a gang fit together, and where."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.planning.gang import MemberState
from scheduler_ext.core.planning.gang_fit import GangFit, GangMiss, fit
from scheduler_ext.core.planning.placing import Place
from tests.core.planning.memory_cluster import (
    ZONE,
    Ask,
    Host,
    MemoryCluster,
    gang,
    member,
    packs,
    team,
    topology,
)
from tests.examples import examples


def nodes_of(found: GangFit | GangMiss[Ask]) -> list[str]:
    assert isinstance(found, GangFit), found
    return sorted(place.node for place in found.places.values())


TWO_ZONES = {
    "a1": Host(8, zone="a"),
    "a2": Host(8, zone="a"),
    "a3": Host(8, zone="a"),
    "b1": Host(8, zone="b"),
    "b2": Host(8, zone="b"),
}


@pytest.mark.parametrize(
    ("wishes", "gpus", "expected"),
    [
        pytest.param(
            {"required": ZONE}, [8, 8], ["b1", "b2"], id="the smallest zone that takes all is chosen"
        ),
        pytest.param(
            {"preferred": ZONE},
            [8, 8, 8, 8],
            ["a1", "a2", "a3", "b1"],
            id="a preference never keeps a gang out",
        ),
        pytest.param({}, [4, 4, 4, 4], ["a1", "a1", "a2", "a2"], id="without a wish the scores decide"),
    ],
)
def test_a_gang_lies_in_one_zone(wishes: dict[str, Any], gpus: list[int], expected: list[str] | None) -> None:
    cluster = MemoryCluster(TWO_ZONES)
    members = [member(f"m{i}", each) for i, each in enumerate(gpus)]
    found = fit(gang(*members, **wishes), cluster, topology(TWO_ZONES))
    if expected is None:
        assert isinstance(found, GangMiss)
    else:
        assert nodes_of(found) == expected


def test_members_that_are_bound_fix_the_zone_of_the_others() -> None:
    there = member("m0", 8, MemberState.BOUND, node="a1")
    cluster = MemoryCluster(TWO_ZONES)
    cluster.put(there.ask, "a1")
    found = fit(gang(there, member("m1", 8), required=ZONE), cluster, topology(TWO_ZONES))
    assert nodes_of(found) == ["a2"]


def test_a_bound_member_on_a_dead_node_fixes_no_zone() -> None:
    there = member("m0", 8, MemberState.BOUND, node="gone")
    found = fit(gang(there, member("m1", 8), required=ZONE), MemoryCluster(TWO_ZONES), topology(TWO_ZONES))
    assert nodes_of(found) == ["b1"]


def test_the_nearest_miss_is_where_most_members_fit() -> None:
    cluster = MemoryCluster(TWO_ZONES)
    found = fit(gang(*team(4, 8), required=ZONE), cluster, topology(TWO_ZONES))
    assert isinstance(found, GangMiss)
    assert (found.placed, len(found.unplaced), str(found.domain)) == (3, 1, "zone=a")


def test_only_nodes_that_are_allowed_are_used() -> None:
    found = fit(gang(*team(2, 8)), MemoryCluster(TWO_ZONES), {}, among=["a2", "b2"])
    assert nodes_of(found) == ["a2", "b2"]


HOSTS = st.lists(st.integers(1, 8), min_size=1, max_size=4).map(
    lambda sizes: {f"n{i}": Host(size, zone="ab"[i % 2]) for i, size in enumerate(sizes)}
)
GPUS = st.lists(st.integers(1, 5), min_size=1, max_size=5)


@examples(40, 8000)
@given(
    hosts=HOSTS, gpus=GPUS, required=st.sampled_from([None, ZONE]), preferred=st.sampled_from([None, ZONE])
)
def test_a_gang_is_placed_whole_or_not_at_all(
    hosts: dict[str, Host], gpus: list[int], required: str | None, preferred: str | None
) -> None:
    cluster = MemoryCluster(hosts)
    before = dict(cluster.free)
    whole = gang(
        *(member(f"m{i}", each) for i, each in enumerate(gpus)), required=required, preferred=preferred
    )
    found = fit(whole, cluster, topology(hosts))
    if isinstance(found, GangMiss):
        assert cluster.free == before
        assert found.placed + len(found.unplaced) == len(gpus)
        return
    used = dict.fromkeys(hosts, 0)
    for each in whole.members:
        used[found.places[each.uid].node] += each.ask.gpus
    assert cluster.free == {name: before[name] - used[name] for name in hosts}
    assert all(count >= 0 for count in cluster.free.values())
    if required:
        assert len({hosts[place.node].zone for place in found.places.values()}) == 1


@examples(40, 8000)
@given(hosts=HOSTS, gpus=st.integers(1, 5), count=st.integers(1, 6))
def test_members_that_ask_the_same_fit_whenever_there_is_room(
    hosts: dict[str, Host], gpus: int, count: int
) -> None:
    cluster = MemoryCluster(hosts)
    possible = packs([Ask(gpus)] * count, hosts, cluster.free)
    assert isinstance(fit(gang(*team(count, gpus)), cluster, {}), GangFit) == possible


def test_different_members_fit_nearly_whenever_there_is_room() -> None:
    """Orders are tried, not all choices of places: 99 of 100 random gangs that fit are found."""
    random, possible, found = Random(7), 0, 0
    for _ in range(600):
        hosts = {f"n{i}": Host(random.randint(2, 8)) for i in range(random.randint(2, 4))}
        asks = [Ask(random.randint(1, 6)) for _ in range(random.randint(2, 6))]
        cluster = MemoryCluster(hosts)
        if packs(asks, hosts, cluster.free):
            possible += 1
            members = [member(f"m{i}", ask.gpus) for i, ask in enumerate(asks)]
            found += isinstance(fit(gang(*members), cluster, {}), GangFit)
    assert possible > 100
    assert found >= 0.99 * possible


def test_members_that_ask_alike_are_tried_in_one_order() -> None:
    class Counted(MemoryCluster):
        asked = 0

        def best(self, ask: Ask, among: Collection[str] | None = None) -> Place | None:
            self.asked += 1
            return super().best(ask, among)

    cluster = Counted({"n": Host(8)})
    found = fit(gang(*team(9)), cluster, {})
    assert isinstance(found, GangMiss)
    assert found.placed == 8
    assert cluster.asked == 9
