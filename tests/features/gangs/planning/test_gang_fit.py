"""Whether the members of a gang fit together, and where."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.cycle.placing import BestNode
from scheduler_ext.features.gangs.planning.gang import Gang, MemberState
from scheduler_ext.features.gangs.planning.gang_fit import GangFit, GangMiss, fit
from tests.examples import examples
from tests.features.gangs.planning.memory_cluster import (
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

BOUND = MemberState.BOUND
TWO_ZONES = {name: Host(8, zone=name[0]) for name in ("a1", "a2", "a3", "b1", "b2")}


@pytest.mark.parametrize(
    ("whole", "among", "expected"),
    [
        pytest.param(
            gang(*team(2, 8), required_topology=ZONE),
            None,
            ["b1", "b2"],
            id="the smallest zone that takes all is chosen",
        ),
        pytest.param(
            gang(*team(4, 8), preferred_topology=ZONE),
            None,
            ["a1", "a2", "a3", "b1"],
            id="a preference never keeps a gang out",
        ),
        pytest.param(
            gang(*team(4, 4)), None, ["a1", "a1", "a2", "a2"], id="without a wish the scores decide"
        ),
        pytest.param(
            gang(member("m0", 8, BOUND, node="a1"), member("m1", 8), required_topology=ZONE),
            None,
            ["a2"],
            id="a member that is bound fixes the zone of the others",
        ),
        pytest.param(
            gang(member("m0", 8, BOUND, node="gone"), member("m1", 8), required_topology=ZONE),
            None,
            ["b1"],
            id="not on a node that is gone",
        ),
        pytest.param(
            gang(*team(2, 8)), ["a2", "b2"], ["a2", "b2"], id="only nodes that are allowed are used"
        ),
    ],
)
def test_where_the_members_of_a_gang_go(
    whole: Gang[Ask], among: list[str] | None, expected: list[str]
) -> None:
    cluster = MemoryCluster(TWO_ZONES)
    for each in whole.bound:
        if each.node in TWO_ZONES:
            cluster.put(each.ask, each.node)
    found = fit(whole, cluster, topology(TWO_ZONES), among)
    assert isinstance(found, GangFit)
    assert sorted(place.node for place in found.places.values()) == expected


def test_the_nearest_miss_is_where_most_members_fit() -> None:
    cluster = MemoryCluster(TWO_ZONES)
    found = fit(gang(*team(4, 8), required_topology=ZONE), cluster, topology(TWO_ZONES))
    assert isinstance(found, GangMiss)
    assert (len(found.placed), len(found.unplaced), str(found.domain)) == (3, 1, "zone=a")


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
        *(member(f"m{i}", each) for i, each in enumerate(gpus)),
        required_topology=required,
        preferred_topology=preferred,
    )
    found = fit(whole, cluster, topology(hosts))
    if isinstance(found, GangMiss):
        assert cluster.free == before
        assert len(found.placed) + len(found.unplaced) == len(gpus)
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

        def best(self, ask: Ask, among: Collection[str] | None = None) -> BestNode | None:
            self.asked += 1
            return super().best(ask, among)

    cluster = Counted({"n": Host(8)})
    found = fit(gang(*team(9)), cluster, {})
    assert isinstance(found, GangMiss)
    assert len(found.placed) == 8
    assert cluster.asked == 9
