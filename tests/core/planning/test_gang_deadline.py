"""What happens to a gang whose members have not all started in time."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.core.planning.gang import Gang, MemberState, OnDeadline
from scheduler_ext.core.planning.gang_deadline import DeadlinePolicy, Standing, given_up, standing
from tests.core.planning.memory_cluster import Ask, gang, member

BOUND, WAITING, GATED = MemberState.BOUND, MemberState.WAITING, MemberState.GATED
POLICY = DeadlinePolicy(deadline_s=60.0)


def of(*states: tuple[MemberState, float | None], size: int = 2, **more: Any) -> Gang[Ask]:
    """A gang of members in these states, each with its deadline, created at 100."""
    members = [
        member(f"m{i}", state=state, node="n", deadline=until, created_at=100.0)
        for i, (state, until) in enumerate(states)
    ]
    return gang(*members, size=size, **more)


@pytest.mark.parametrize(
    ("whole", "now", "expected"),
    [
        pytest.param(of((GATED, None)), 999.0, Standing.ASSEMBLING, id="a pod is missing"),
        pytest.param(
            of((GATED, None), (GATED, None)), 999.0, Standing.READY, id="gates stay as long as needed"
        ),
        pytest.param(
            of((GATED, 50.0), (GATED, 50.0)), 99.0, Standing.READY, id="a deadline needs a lifted gate"
        ),
        pytest.param(of((WAITING, 90.0), (GATED, None)), 89.0, Standing.STARTING, id="one gate went"),
        pytest.param(of((WAITING, 90.0), (GATED, None)), 90.0, Standing.OVERDUE, id="and nothing followed"),
        pytest.param(
            of((BOUND, 90.0), (WAITING, 95.0)), 92.0, Standing.OVERDUE, id="the first deadline counts"
        ),
        pytest.param(of((BOUND, 90.0)), 92.0, Standing.OVERDUE, id="a member was deleted before the start"),
        pytest.param(of((BOUND, 90.0), (BOUND, 90.0)), 92.0, Standing.STARTED, id="all run"),
        pytest.param(of((BOUND, None)), 999.0, Standing.STARTED, id="a member left after the start"),
        pytest.param(of((BOUND, None), (GATED, None)), 159.0, Standing.STARTING, id="a member comes back"),
        pytest.param(
            of((BOUND, None), (GATED, None)), 160.0, Standing.OVERDUE, id="and finds no place in time"
        ),
        pytest.param(
            of((WAITING, None), (WAITING, None)), 999.0, Standing.STARTING, id="without gates, no deadline"
        ),
        pytest.param(
            of((BOUND, None), (GATED, None), deadline_s=10.0), 110.0, Standing.OVERDUE, id="its own deadline"
        ),
    ],
)
def test_the_members_say_how_a_gang_stands(whole: Gang[Ask], now: float, expected: Standing) -> None:
    assert standing(whole, now, POLICY) is expected


def late(name: str, policy: OnDeadline | None) -> Gang[Ask]:
    return of((BOUND, 90.0), (WAITING, 90.0), name=name, on_deadline=policy)


@pytest.mark.parametrize(
    ("gangs", "reach", "expected"),
    [
        pytest.param([late("a", None)], {}, ["a"], id="by default, a late gang is evicted"),
        pytest.param([late("a", OnDeadline.HOLD)], {}, [], id="one that asks for it holds its places"),
        pytest.param(
            [late("a", OnDeadline.HOLD), late("b", OnDeadline.HOLD)],
            {"a": "xy", "b": "yz"},
            ["b"],
            id="of two that could wait for each other the first holds",
        ),
        pytest.param(
            [late("a", OnDeadline.HOLD), late("b", OnDeadline.HOLD)],
            {"a": "x", "b": "z"},
            [],
            id="both hold on nodes that the other cannot use",
        ),
        pytest.param([of((BOUND, 200.0), (WAITING, 200.0))], {}, [], id="a gang in time stays"),
    ],
)
def test_late_gangs_are_given_up(gangs: list[Gang[Ask]], reach: dict[str, str], expected: list[str]) -> None:
    found = given_up(gangs, 100.0, POLICY, lambda each: frozenset(reach.get(each.key.name, "")))
    assert [each.key.name for each in found] == expected
