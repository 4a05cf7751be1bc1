"""Pods decided together are never worse off than one after the other, and often as well as they can be."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.planning.joint import MOST, choose
from tests.core.planning.small_cluster import (
    WHOLE,
    Node,
    SmallCluster,
    Waiting,
    clusters,
    most_gpus,
    one_by_one,
    placed_on,
    pods,
    pods_of_priorities,
)
from tests.examples import examples

# Of batches that do not fit as a whole: the part that gets all GPUs that an exhaustive search finds, and how
# many times as many miss some one by one.
PART_BEST, TIMES_MISSED = 0.93, 6

_batches = st.lists(pods, max_size=MOST)
_batches_of_priorities = st.lists(pods_of_priorities, max_size=12)


def decided(asks: Sequence[Waiting], nodes: Sequence[Node]) -> list[bool]:
    return [place is not None for place in choose(asks, SmallCluster(nodes))]


def admitted(asks: Sequence[Waiting], found: Sequence[bool]) -> tuple[int, int]:
    """How many pods have a place, and their thousandths of GPUs."""
    milli = [ask.milli for ask, placed in zip(asks, found, strict=True) if placed]
    return len(milli), sum(milli)


@pytest.mark.parametrize(
    ("nodes", "asks", "expected"),
    [
        pytest.param(
            [((1000,), 8), ((900, 0), 8)],
            [Waiting(500), Waiting(810), Waiting(1000)],
            [False, True, True],
            id="a pod that leaves its place for another one may take that of a third",
        ),
        pytest.param(
            [((1000,), 4), ((1000,), 1)],
            [Waiting(1000), Waiting(810, cores=2)],
            [True, True],
            id="a pod goes to another node for one that fits on its own alone",
        ),
        pytest.param(
            [((1000,), 4), ((1000,), 1)],
            [Waiting(1000), Waiting(810, cores=2), Waiting(810, cores=2)],
            [True, True, False],
            id="of equal pods the first one gets the place that another one leaves",
        ),
        pytest.param(
            [((1000,), 8)],
            [Waiting(1000, cores=2), Waiting(1000, cores=1)],
            [True, False],
            id="of pods with as many GPUs the first one stays",
        ),
    ],
)
def test_pods_decided_together(nodes: list[Node], asks: list[Waiting], expected: list[bool]) -> None:
    assert decided(asks, nodes) == expected


@given(_batches, clusters)
def test_the_order_stays_where_all_fit_one_by_one(asks: list[Waiting], nodes: list[Node]) -> None:
    fitting = [ask for ask, found in zip(asks, one_by_one(asks, SmallCluster(nodes)), strict=True) if found]
    together, alone = SmallCluster(nodes), SmallCluster(nodes)
    assert all(one_by_one(fitting, alone))
    choose(fitting, together)
    assert together.nodes == alone.nodes
    assert together.tried == len(fitting)


@given(_batches_of_priorities, clusters)
def test_lower_priorities_change_nothing_for_higher_ones(asks: list[Waiting], nodes: list[Node]) -> None:
    all_places = choose(asks, SmallCluster(nodes))
    for least in (1, 2):
        higher = [index for index, ask in enumerate(asks) if ask.priority >= least]
        alone = choose([asks[index] for index in higher], SmallCluster(nodes))
        assert [all_places[index] for index in higher] == alone


@given(_batches_of_priorities, clusters)
def test_the_first_priority_that_fares_differently_fares_better(
    asks: list[Waiting], nodes: list[Node]
) -> None:
    together, alone = decided(asks, nodes), one_by_one(asks, SmallCluster(nodes))
    for priority in (2, 1, 0):
        level = [index for index, ask in enumerate(asks) if ask.priority == priority]
        here = [asks[index] for index in level]
        ours = admitted(here, [together[index] for index in level])
        theirs = admitted(here, [alone[index] for index in level])
        if ours != theirs:
            assert ours[0] >= theirs[0]
            assert ours[1] > theirs[1]
            break


@given(_batches_of_priorities, clusters)
def test_the_places_are_on_the_cluster_and_full_after_few_trials(
    asks: list[Waiting], nodes: list[Node]
) -> None:
    cluster = SmallCluster(nodes)
    mark = cluster.mark()
    places = choose(asks, cluster)
    assert cluster.tried <= 4 * len(asks)
    taken = sum(ask.milli for ask, place in zip(asks, places, strict=True) if place)
    free = {name: sum(rooms) for name, (rooms, _) in cluster.nodes.items()}
    assert sum(sum(rooms) for rooms, _ in nodes) - sum(free.values()) == taken
    for number, (rooms, cores) in enumerate(nodes):
        here = [a for a, place in zip(asks, places, strict=True) if place and place.node == f"n{number}"]
        assert sum(rooms) - free[f"n{number}"] == sum(ask.milli for ask in here)
        assert cores - cluster.nodes[f"n{number}"][1] == sum(ask.cores for ask in here)
    waiting = [ask for ask, place in zip(asks, places, strict=True) if place is None]
    assert not any(placed_on(node, ask) for node in cluster.nodes.values() for ask in waiting)
    cluster.rollback(mark)
    assert list(cluster.nodes.values()) == nodes


@examples(200, 2000)
@given(
    st.lists(st.sampled_from((300, 400, 500, 600, 700, WHOLE)).map(Waiting), min_size=4, max_size=7),
    st.tuples(*[st.sampled_from((600, 700, WHOLE))] * 3),
)
def test_pods_that_have_other_devices_without_another_pod(asks: list[Waiting], gpus: tuple[int, ...]) -> None:
    cluster, alone = (SmallCluster([(gpus, 20)], whimsical=True) for _ in range(2))
    # The cluster refuses to put a pod where it does not fit.
    places = choose(asks, cluster)
    assert sum(place is not None for place in places) >= sum(one_by_one(asks, alone))
    assert sum(cluster.nodes["n0"][0]) <= sum(alone.nodes["n0"][0])


def test_equal_pods_are_not_searched() -> None:
    cluster = SmallCluster([((1000,) * 4, 100)])
    places = choose([Waiting(1000)] * MOST, cluster)
    assert [place is not None for place in places] == [True] * 4 + [False] * (MOST - 4)
    assert cluster.tried == 5


def test_a_batch_of_which_nothing_fits_is_not_searched() -> None:
    cluster = SmallCluster([((500, 0), 100)])
    assert choose([Waiting(1000), Waiting(810), Waiting(1000)], cluster) == [None] * 3
    assert cluster.tried == 2


def test_most_batches_have_all_gpus_that_an_exhaustive_search_finds() -> None:
    random_ = random.Random(24)
    cases = [_case(random_) for _ in range(120)]
    contested = together_best = alone_best = 0
    for asks, nodes in cases:
        alone, together = one_by_one(asks, SmallCluster(nodes)), decided(asks, nodes)
        if all(alone):
            continue
        contested += 1
        least_pods, alone_milli = admitted(asks, alone)
        most = most_gpus(asks, nodes, least_pods)
        together_milli = admitted(asks, together)[1]
        assert alone_milli <= together_milli <= most
        alone_best += alone_milli == most
        together_best += together_milli == most
    assert contested > 60
    assert together_best / contested > PART_BEST
    assert (contested - together_best) * TIMES_MISSED < contested - alone_best


def _case(random_: random.Random) -> tuple[list[Waiting], list[Node]]:
    asks = [
        Waiting(random_.choice((200, 300, 500, 700, 810, WHOLE, WHOLE, 2 * WHOLE)), random_.randint(1, 3))
        for _ in range(random_.randint(2, 6))
    ]
    nodes = [
        (
            tuple(random_.choice((0, 500, WHOLE, WHOLE)) for _ in range(random_.randint(1, 3))),
            random_.randint(1, 6),
        )
        for _ in range(random_.randint(1, 2))
    ]
    return asks, nodes
