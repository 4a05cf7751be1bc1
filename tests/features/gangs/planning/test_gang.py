"""Gangs, from their members."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.request.gang_request import GangKey, GangRequest
from scheduler_ext.features.gangs.planning.gang import Gang, MemberState, gangs_of, rank
from tests.features.gangs.planning.memory_cluster import Ask, gang, member, team

BOUND, WAITING, GATED, DONE = MemberState.BOUND, MemberState.WAITING, MemberState.GATED, MemberState.DONE


def states(*of: MemberState, size: int = 0, deadline: float | None = None) -> Gang[Ask]:
    members = [
        member(
            f"m{i}",
            state=state,
            node="n" if state is BOUND else None,
            deadline=deadline if state in (BOUND, WAITING) else None,
        )
        for i, state in enumerate(of)
    ]
    return gang(*members, size=size or len(members))


def test_members_that_are_farthest_make_the_team() -> None:
    whole = states(GATED, GATED, WAITING, BOUND, DONE, size=3, deadline=5)
    assert [each.state for each in whole.team] == [DONE, BOUND, WAITING]
    assert [each.state for each in whole.joining] == [WAITING]


def test_further_members_join_a_gang_that_has_started() -> None:
    assert len(states(BOUND, BOUND, GATED, size=2).joining) == 1


def test_a_member_that_comes_back_does_not_wait_until_further_members_fit() -> None:
    assert len(states(BOUND, GATED, GATED, GATED, size=2).joining) == 1


def test_gangs_are_in_the_order_of_priority_then_age() -> None:
    def one(name: str, priority: int, created: float) -> Gang[Ask]:
        return gang(*team(2, priority=priority, created_at=created), name=name)

    gangs = [one("low", 0, 1.0), one("young", 5, 9.0), one("old", 5, 3.0)]
    assert [each.key.name for each in sorted(gangs, key=rank)] == ["old", "young", "low"]


@pytest.mark.parametrize(
    ("whole", "promised"),
    [
        pytest.param(states(WAITING, WAITING, deadline=9.0), True, id="its gates went with a deadline"),
        pytest.param(states(BOUND, WAITING, deadline=9.0), True, id="its last member has no node yet"),
        pytest.param(states(BOUND, WAITING, deadline=5.0), False, id="its time is over"),
        pytest.param(states(WAITING, WAITING), False, id="its pods had no gates"),
        pytest.param(states(BOUND, BOUND, GATED, deadline=9.0), False, id="a pod came back, or was added"),
        pytest.param(
            gang(*team(2, deadline=9.0, node="n")), False, id="all members have places, and their gates"
        ),
        pytest.param(states(BOUND, BOUND, deadline=9.0), False, id="it needs no place"),
    ],
)
def test_only_a_gang_that_was_started_and_has_time_is_promised_its_places(
    whole: Gang[Ask], promised: bool
) -> None:
    assert whole.is_promised(5.0) is promised


def test_members_that_contradict_each_other_are_named() -> None:
    gang_request = GangRequest(GangKey("ns", "gang", "train"), 8)
    found = gangs_of([(gang_request, member("a")), (replace(gang_request, size=6), member("b"))])
    assert found[0].problem == (
        "members of gang ns/train contradict each other: size 8 and 6; give all of its pods the same"
    )


@pytest.mark.parametrize(
    ("durations", "expected"),
    [
        pytest.param([60.0, 90.0], 90.0, id="the longest of its members"),
        pytest.param([60.0, None], None, id="unknown if one does not say"),
    ],
)
def test_a_gang_runs_as_long_as_its_members(durations: list[float | None], expected: float | None) -> None:
    members = [member(f"m{i}", max_duration_s=each) for i, each in enumerate(durations)]
    assert gang(*members).max_duration_s == expected
