"""Writes that the watch does not show yet."""

from __future__ import annotations

import pytest

from scheduler_ext.cluster.planning.own_writes import OwnWrites
from scheduler_ext.core.planning.gang import MemberState
from scheduler_ext.wire.gang_pod import GangPod
from tests.cluster.planning.test_gang_assembly import member


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def after(writes: OwnWrites, pod: GangPod) -> GangPod:
    (found,) = writes.over([pod])
    return found


def test_a_nomination_is_seen_at_once(clock: Clock) -> None:
    writes = OwnWrites(clock)
    writes.placed("uid-a", "n1", 100.0)
    seen = after(writes, member("a"))
    assert (seen.nominated, seen.deadline, seen.state) == ("n1", 100.0, MemberState.GATED)


def test_an_evicted_pod_is_no_member(clock: Clock) -> None:
    writes = OwnWrites(clock)
    writes.gone("uid-a")
    assert after(writes, member("a", on="n1")).state is None
    assert writes.is_gone("uid-a")


def test_a_bound_pod_is_where_the_cluster_says(clock: Clock) -> None:
    writes = OwnWrites(clock)
    writes.placed("uid-a", "n1", None)
    seen = after(writes, member("a", on="n2"))
    assert (seen.node, seen.state, seen.deadline) == ("n2", MemberState.BOUND, None)


def test_the_cluster_decides_after_a_while(clock: Clock) -> None:
    writes = OwnWrites(clock)
    writes.placed("uid-a", "n1", 100.0)
    clock.now = 6.0
    assert after(writes, member("a")).nominated is None
