"""The places that are kept for a gang, and the pods that may use them meanwhile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.planning.draining import Running
from scheduler_ext.core.planning.gang import Gang
from scheduler_ext.core.planning.gang_fit import GangFit, fit
from scheduler_ext.core.planning.gang_reservation import Backfill, Reservation, part_of, reserve
from tests.core.planning.memory_cluster import Ask, Host, MemoryCluster, gang, running, team
from tests.examples import examples

Pods = list[tuple[Running, int]]
TWO = {"n1": Host(8), "n2": Host(8)}


def kept(whole: Gang[Ask], pods: Pods, previous: Reservation[Ask] | None = None) -> Reservation[Ask] | None:
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
    found = Reservation(
        whole.key, whole.joining, {"m0": "n1"}, frozenset({"a"}), 50.0, frozenset(hosts), below
    )
    backfill = Backfill(cluster, [pod for pod, _ in pods], now=10.0)
    backfill.reservations.append(found)
    cluster.put(Ask(1), "other")  # so that the scores prefer `other` only if it is allowed alone
    if expected == "n1":
        cluster.put(Ask(1), "other")
    place = backfill.place(Ask(1), priority, duration)
    assert (place and place.node) == expected


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
