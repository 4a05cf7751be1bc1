"""The places that are kept for a gang, and the pods that may use them meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.features.gangs.planning.draining import Running, remove_all
from scheduler_ext.features.gangs.planning.gang import Gang
from scheduler_ext.features.gangs.planning.gang_fit import GangFit, fit
from scheduler_ext.features.gangs.planning.gang_reservation import Backfill, GangReservation, part_of, reserve
from tests.examples import examples
from tests.features.gangs.planning.memory_cluster import (
    ZONE,
    Ask,
    Host,
    MemoryCluster,
    gang,
    member,
    running,
    team,
    topology,
)

Pods = list[tuple[Running, int]]
TWO = {"n1": Host(8), "n2": Host(8)}


def kept(
    whole: Gang[Ask], pods: Pods, previous: GangReservation[Ask] | None = None
) -> GangReservation[Ask] | None:
    cluster = MemoryCluster(TWO, pods)
    part = part_of(whole, cluster)
    before = dict(cluster.free)
    found = reserve(whole, cluster, [pod for pod, _ in pods], {}, part, previous)
    assert cluster.free == before
    return found


@pytest.mark.parametrize(
    ("pods", "starts_at", "awaited"),
    [
        pytest.param(
            [running("a", "n1", 8), running("b", "n2", 8, ends=90.0)],
            90.0,
            {"b"},
            id="a stated end is waited for rather than an unknown one",
        ),
        pytest.param(
            [running("a", "n1", 8), running("b", "n2", 8, leaving=True)],
            None,
            {"b"},
            id="a pod that leaves is waited for first, at a time that is not known",
        ),
        pytest.param(
            [running("a", "n1", 8, started_at=5.0), running("b", "n2", 8, started_at=2.0)],
            None,
            {"a"},
            id="of unknown ends that of the last one to start is waited for",
        ),
        pytest.param(
            [
                running("a", "n1", 4),
                running("b", "n1", 4, started_at=9.0),
                running("c", "n2", 8, started_at=8.0),
            ],
            None,
            {"c"},
            id="pods that need not leave are not waited for",
        ),
    ],
)
def test_a_gang_waits_for_the_pods_that_end_first(
    pods: Pods, starts_at: float | None, awaited: set[str]
) -> None:
    found = kept(gang(*team(2, 4)), pods)
    assert found is not None
    assert (found.starts_at, set(found.awaited)) == (starts_at, awaited)


def test_no_place_is_kept_for_a_gang_that_never_fits() -> None:
    assert kept(gang(*team(5, 4)), [running("a", "n1", 1)]) is None


@pytest.mark.parametrize(
    ("first", "new", "nodes"),
    [
        pytest.param(
            [running("a", "n1", 8, started_at=5.0), running("b", "n2", 8, started_at=2.0)],
            running("new", "n2", 8, started_at=7.0),
            {"n1"},
            id="places are kept from step to step",
        ),
        pytest.param(
            [running("a", "n1", 8, ends=80.0), running("b", "n2", 8, ends=90.0)],
            running("new", "n2", 8, ends=20.0),
            {"n2"},
            id="but for places that are free sooner",
        ),
    ],
)
def test_places_after_another_pod_came(first: Pods, new: tuple[Running, int], nodes: set[str]) -> None:
    before = kept(gang(*team(1, 8)), first)
    assert before is not None
    assert before.nodes == {"n1"}
    again = kept(gang(*team(1, 8)), [first[0], new], before)
    assert again is not None
    assert again.nodes == nodes


@pytest.mark.parametrize(
    ("priority", "duration", "below", "expected"),
    [
        pytest.param(0, None, None, "other", id="a pod without an end goes elsewhere"),
        pytest.param(0, 40.0, None, "n1", id="a pod that ends in time may use a kept place"),
        pytest.param(0, 41.0, None, "other", id="not one that ends later"),
        pytest.param(0, None, 5, "n1", id="a pod that the gang would evict may use it"),
        pytest.param(5, None, 5, "other", id="not one of the gang's own priority"),
    ],
)
def test_a_kept_place_is_used_only_until_the_gang_starts(
    priority: int, duration: float | None, below: int | None, expected: str
) -> None:
    hosts = {"n1": Host(8), "other": Host(2)}
    pods = [running("a", "n1", 4, ends=50.0)]
    cluster = MemoryCluster(hosts, pods)
    whole = gang(*team(1, 8))
    found = GangReservation(
        whole.key, whole.joining, {"m0": "n1"}, frozenset({"a"}), 50.0, frozenset(hosts), below
    )
    backfill = Backfill(cluster, [pod for pod, _ in pods], now=10.0)
    backfill.reservations.append(found)
    cluster.put(Ask(1), "other")  # so that the scores prefer `other` only if it is allowed alone
    if expected == "n1":
        cluster.put(Ask(1), "other")
    place = backfill.place(Ask(1), priority, duration)
    assert (place and place.node) == expected


def refitted(whole: Gang[Ask], hosts: dict[str, Host], pods: Pods) -> tuple[float | None, set[str]] | None:
    """When a gang starts and the pods that it waits for, by placing it anew after each set of pods: the first
    pods by their ends, then those that started last, and of these none that need not leave."""

    def fits_without(gone: Sequence[Running]) -> GangFit | None:
        cluster = MemoryCluster(hosts, pods)
        remove_all(cluster, gone)
        found = fit(whole, cluster, topology(hosts))
        return found if isinstance(found, GangFit) else None

    timed = [pod for pod, _ in pods if pod.leaving or pod.ends_at is not None]
    timed.sort(key=lambda pod: (not pod.leaving, 0.0 if pod.leaving else pod.ends_at or 0.0, pod.uid))
    others = [pod for pod, _ in pods if not pod.leaving and pod.ends_at is None]
    others.sort(key=lambda pod: (-(pod.pod.started_at or 0.0), pod.uid))
    every = [*timed, *others]
    gone = next((every[:n] for n in range(len(every) + 1) if fits_without(every[:n])), None)
    if gone is None:
        return None
    again = len(gone) > len(timed)
    while again:
        again = False
        for pod in reversed(gone):
            rest = [each for each in gone if each is not pod]
            if fits_without(rest):
                gone, again = rest, True
    found = fits_without(gone)
    assert found is not None
    nodes = {place.node for place in found.places.values()}
    awaited = {pod.uid: pod.ends_at for pod in gone if pod.node in nodes and not pod.leaving}
    ends = [end for end in awaited.values() if end is not None]
    starts_at = max(ends) if ends and len(ends) == len(awaited) else None
    return starts_at, {pod.uid for pod in gone if pod.node in nodes}


SEVERAL = {f"n{i}": Host(gpus, zone="abc"[i % 3]) for i, gpus in enumerate((8, 8, 4, 8, 8, 4))}
RUNNING = st.lists(
    st.tuples(
        st.sampled_from(sorted(SEVERAL)),
        st.integers(1, 4),
        st.none() | st.integers(1, 60).map(float),
        st.integers(0, 9).map(float),
        st.sampled_from([False, False, False, True]),
    ),
    max_size=16,
)


def on_nodes(rows: Iterable[tuple[str, int, float | None, float, bool]]) -> Pods:
    free, found = {name: host.gpus for name, host in SEVERAL.items()}, []
    for i, (node, gpus, ends, started_at, leaving) in enumerate(rows):
        if free[node] >= gpus:
            free[node] -= gpus
            found.append(running(f"p{i}", node, gpus, ends=ends, leaving=leaving, started_at=started_at))
    return found


def reserved(whole: Gang[Ask], pods: Pods) -> GangReservation[Ask] | None:
    cluster = MemoryCluster(SEVERAL, pods)
    before = dict(cluster.free)
    part = part_of(whole, cluster)
    found = reserve(whole, cluster, [pod for pod, _ in pods], topology(SEVERAL), part)
    assert cluster.free == before
    return found


WISHES = st.fixed_dictionaries(
    {"required_topology": st.sampled_from([None, ZONE]), "preferred_topology": st.sampled_from([None, ZONE])}
)


@examples(100, 5000)
@given(rows=RUNNING, count=st.integers(1, 6), gpus=st.integers(1, 8), wishes=WISHES)
def test_equal_members_wait_for_the_pods_that_placing_them_anew_each_time_finds(
    rows: list[tuple[str, int, float | None, float, bool]], count: int, gpus: int, wishes: dict[str, Any]
) -> None:
    pods, whole = on_nodes(rows), gang(*team(count, gpus), **wishes)
    found = reserved(whole, pods)
    assert (found and (found.starts_at, set(found.awaited))) == refitted(whole, SEVERAL, pods)


def test_different_members_wait_for_hardly_more_than_placing_them_anew_each_time_finds() -> None:
    """The places are free once the awaited pods have left. Of random gangs, 98 of 100 start as early, or wait
    for as few pods if the time is not known."""
    random, total, as_good = Random(5), 0, 0
    for _ in range(300):
        rows = [
            (
                random.choice(sorted(SEVERAL)),
                random.randint(1, 4),
                random.choice([None, None, float(random.randint(1, 60))]),
                float(random.randint(0, 9)),
                random.random() < 0.1,
            )
            for _ in range(random.randint(6, 16))
        ]
        pods = on_nodes(rows)
        whole = gang(*(member(f"m{i}", random.randint(1, 6)) for i in range(random.randint(2, 6))))
        found, plain = reserved(whole, pods), refitted(whole, SEVERAL, pods)
        assert (found is None) == (plain is None)
        if found is None or plain is None:
            continue
        left = MemoryCluster(SEVERAL, [(pod, gpus) for pod, gpus in pods if pod.uid not in found.awaited])
        for each in whole.joining:
            left.put(each.ask, found.places[each.uid])
        total += 1
        as_good += lateness(found.starts_at, found.awaited) <= lateness(*plain)
    assert total > 100
    assert as_good >= 0.98 * total


def lateness(starts_at: float | None, awaited: Collection[str]) -> tuple[bool, float]:
    return starts_at is None, len(awaited) if starts_at is None else starts_at


PODS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 4), st.none() | st.integers(1, 60).map(float)), max_size=8
)
ARRIVALS = st.lists(st.tuples(st.integers(1, 4), st.none() | st.integers(1, 60).map(float)), max_size=12)


@examples(150, 8000)
@given(pods=PODS, count=st.integers(1, 3), gpus=st.integers(1, 8), arrivals=ARRIVALS, data=st.data())
def test_backfill_never_delays_a_gang_beyond_its_estimate(
    pods: list[tuple[int, int, float | None]],
    count: int,
    gpus: int,
    arrivals: list[tuple[int, float | None]],
    data: st.DataObject,
) -> None:
    """Pods arrive, start where backfill lets them, and run as long as they said; at its estimate the gang
    fits. Its reservation is found again at each step, with and without a memory of the last."""
    hosts = {f"n{i}": Host(8) for i in range(3)}
    free = dict.fromkeys(hosts, 8)
    there: Pods = []
    for i, (node, size, ends) in enumerate(pods):
        if free[f"n{node}"] >= size:
            free[f"n{node}"] -= size
            there.append(running(f"p{i}", f"n{node}", size, ends=ends, started_at=float(i)))
    whole = gang(*team(count, gpus))
    if isinstance(fit(whole, MemoryCluster(hosts, there), {}), GangFit):
        return
    promised, previous, now = None, None, 0.0
    for i, (size, duration) in enumerate(arrivals):
        there = [(pod, n) for pod, n in there if pod.ends_at is None or pod.ends_at > now]
        cluster = MemoryCluster(hosts, there)
        if isinstance(fit(whole, cluster, {}), GangFit):
            return
        part = part_of(whole, cluster)
        found = reserve(whole, cluster, [pod for pod, _ in there], {}, part, previous)
        if found is None:
            return
        previous = found if data.draw(st.booleans()) else None
        if found.starts_at is not None:
            assert promised is None or found.starts_at <= promised, "the estimate became later"
            promised = found.starts_at
        else:
            assert promised is None, "an estimate was taken back"
        backfill = Backfill(cluster, [pod for pod, _ in there], now)
        backfill.reservations.append(found)
        place = backfill.place(Ask(size), 0, duration)
        if place is not None:
            ends = None if duration is None else now + duration
            there.append(running(f"new{i}", place.node, size, ends=ends, started_at=now))
        now += data.draw(st.sampled_from([0.0, 1.0, 10.0]))
        if promised is not None and now >= promised:
            break
    if promised is not None:
        left = [(pod, n) for pod, n in there if pod.ends_at is None or pod.ends_at > promised]
        assert isinstance(fit(whole, MemoryCluster(hosts, left), {}), GangFit)
