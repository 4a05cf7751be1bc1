"""For how long places are kept for a gang, and how many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.request.gang_request import GangKey
from scheduler_ext.features.gangs.planning.draining import Running
from scheduler_ext.features.gangs.planning.gang import Gang
from scheduler_ext.features.gangs.planning.gang_bounds import Keeping, KeepingBounds
from scheduler_ext.features.gangs.planning.gang_decisions import Decisions, Single
from scheduler_ext.features.gangs.planning.gang_step import GangPolicy, Scene, step
from scheduler_ext.features.gangs.planning.gang_words import sentence
from scheduler_ext.features.gangs.planning.plan import State
from tests.examples import examples
from tests.features.gangs.planning.memory_cluster import (
    Ask,
    Host,
    MemoryCluster,
    gang,
    request_of,
    running,
    team,
)

HOUR = 3600.0
TWO = {"n1": Host(8), "n2": Host(8)}
Pods = list[tuple[Running, int]]


def decide(
    whole: Gang[Ask],
    pods: Pods,
    now: float,
    keeping: Mapping[GangKey, Keeping],
    policy: GangPolicy,
    hosts: Mapping[str, Host] = TWO,
) -> Decisions[Ask]:
    """A step for a gang and a younger pod of its priority."""
    cluster = MemoryCluster(hosts, pods)
    scene: Scene[Ask] = Scene(cluster, [pod for pod, _ in pods], {}, refusals=cluster.refusals)
    return step(now, [whole], [Single("young", Ask(1), created_at=1e9)], scene, policy, (), keeping)


def state_of(found: Decisions[Ask]) -> State:
    return next(each.state for each in found.verdicts if each.gang is not None)


def words(found: Decisions[Ask]) -> str:
    verdict = next(each for each in found.verdicts if each.gang is not None)
    return sentence(verdict, request_of)


ONE, BOTH = gang(*team(1, 8)), gang(*team(2, 8))


def each_with_a_pod(**fields: Any) -> Pods:
    return [running("a", "n1", **fields), running("b", "n2", **fields)]


@pytest.mark.parametrize(
    ("whole", "pods", "state"),
    [
        pytest.param(ONE, each_with_a_pod(), State.RESERVED, id="half of the GPUs"),
        pytest.param(BOTH, each_with_a_pod(), State.NOT_KEPT, id="all of them"),
        pytest.param(BOTH, each_with_a_pod(ends=HOUR), State.RESERVED, id="all, for a start within the hour"),
        pytest.param(BOTH, each_with_a_pod(ends=HOUR + 1), State.NOT_KEPT, id="all, for a later one"),
        pytest.param(BOTH, each_with_a_pod(leaving=True), State.RESERVED, id="all, from pods that leave"),
    ],
)
def test_no_more_than_a_part_of_the_gpus_waits_for_a_start_that_is_far_or_not_known(
    whole: Gang[Ask], pods: Pods, state: State
) -> None:
    found = decide(whole, pods, 0.0, {}, GangPolicy(starting_s=0.0))
    assert state_of(found) is state
    assert bool(found.reservations) is (state is State.RESERVED)
    if state is State.NOT_KEPT:
        assert [each.uid for each in found.nominate] == ["young"]
        assert "they would be 100 % of the GPUs that its pods can use, and at most 50 % wait" in words(found)


@given(
    # Sums of whole numbers are exact.
    st.lists(st.integers(1, 5000).map(float), min_size=1, max_size=40),
    st.integers(60, 7200).map(float),
)
@examples(60, 2000)
def test_places_for_a_start_that_is_not_known_are_kept_for_no_longer_than_allowed(
    waits: list[float], longest_s: float
) -> None:
    """And for no larger part of the time with each failure; other pods have the GPUs meanwhile."""
    policy = GangPolicy(bounds=KeepingBounds(longest_s), starting_s=0.0)
    pods = [running("a", "n1", 4), running("b", "n2", 4)]
    keeping: Mapping[GangKey, Keeping] = {}
    now = 0.0
    since: float | None = None
    # Sums are compared, as differences are rounded otherwise.
    pauses: list[tuple[float, float]] = []
    paused_at = 0.0
    for wait in waits:
        found = decide(ONE, pods, now, keeping, policy)
        keeping = found.keeping
        if state_of(found) is State.RESERVED:
            if since is None:
                pauses += [(paused_at, now)] if paused_at else []
                since = now
            assert now < since + longest_s, "places are kept too long"
        else:
            assert state_of(found) is State.NOT_KEPT
            assert [each.uid for each in found.nominate] == ["young"]
            paused_at = now if since is not None else paused_at
            since = None
        now += wait
    assert all(end >= begin + longest_s * 2**i for i, (begin, end) in enumerate(pauses))


def test_a_gang_without_kept_places_says_until_when() -> None:
    pods = [running("a", "n1", 4), running("b", "n2", 4)]
    policy = GangPolicy(starting_s=0.0)
    keeping = decide(ONE, pods, 0.0, {}, policy).keeping
    found = decide(ONE, pods, HOUR, keeping, policy)
    assert words(found) == (
        "0 of 1 members fit; 8 × nvidia.com/gpu short; places were kept for the longest time allowed "
        "(nominate.gangs.keepFor); none are until 02:00 UTC, for other pods"
    )
    gone = decide(ONE, pods[:1], HOUR, found.keeping, policy)
    assert (state_of(gone), gone.keeping) == (State.PLANNED, {})


def test_pods_that_can_be_evicted_now_end_a_pause() -> None:
    whole = gang(*team(1, 8, priority=10))
    policy = GangPolicy(preempts=True, starting_s=0.0)
    pods = [running("a", "n1", 4, priority=10), running("b", "n2", 4, priority=10)]
    keeping = {whole.key: Keeping(0.0, 1, 2 * HOUR)}
    assert state_of(decide(whole, pods, HOUR, keeping, policy)) is State.NOT_KEPT
    low = [pods[0], running("c", "n2", 4)]
    assert state_of(decide(whole, low, HOUR, keeping, policy)) is State.EVICTING
    stuck = [pods[0], running("c", "n2", 4, leaving=True)]
    assert state_of(decide(whole, stuck, HOUR, keeping, policy)) is State.NOT_KEPT
