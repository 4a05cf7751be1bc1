"""What happens to a gang whose members have not all started in time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.core.request.gang_request import OnDeadline
from scheduler_ext.features.gangs.planning.gang import Gang, MemberState
from scheduler_ext.features.gangs.planning.gang_deadline import DeadlinePolicy, Standing, given_up, standing
from tests.features.gangs.planning.memory_cluster import Ask, gang, member

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
    ("whole", "expected"),
    [
        pytest.param(of((GATED, None), (GATED, None)), 1060.0, id="from now on"),
        pytest.param(of((GATED, 1050.0), (GATED, None)), 1050.0, id="as on members that are written"),
        pytest.param(of((GATED, 1044.0), (GATED, 1050.0)), 1050.0, id="one that leaves time to start"),
        pytest.param(of((GATED, 1062.0), (GATED, None)), 1060.0, id="not one of another origin"),
        pytest.param(of(*[(GATED, None)] * 1000, size=1000), 1070.0, id="later if many are to be written"),
    ],
)
def test_all_members_of_a_gang_get_one_deadline(whole: Gang[Ask], expected: float) -> None:
    assert POLICY.start_by(whole, 1000.0) == expected


def test_on_a_busy_machine_a_short_deadline_stays_until_all_members_show_it() -> None:
    policy = DeadlinePolicy(deadline_s=10.0)
    until = policy.start_by(of((GATED, None), (GATED, None)), 1000.0)
    assert policy.start_by(of((GATED, until), (GATED, None)), 1004.5) == until
    assert policy.start_by(of((GATED, until), (GATED, until)), 1005.5) > until


def test_the_writes_of_a_large_gang_with_a_short_deadline_end() -> None:
    """A step every 0.2 s, and a write every 10 ms; the gates go once all members show one deadline."""
    policy, now, steps = DeadlinePolicy(deadline_s=8.0), 1000.0, 0
    shown: list[float | None] = [None] * 500
    while len(set(shown)) > 1 or None in shown:
        until = policy.start_by(of(*((GATED, each) for each in shown), size=500), now)
        due = [i for i, each in enumerate(shown) if each is None or abs(each - until) >= 1.0]
        for i in due[:20]:
            shown[i] = float(int(until))
        now, steps = now + 0.2, steps + 1
        assert steps < 100
    assert shown[0] is not None
    assert shown[0] - now >= 0.75 * 8.0


FIRST = member("m0", state=BOUND, node="n", created_at=50.0)
FURTHER = member("old", state=WAITING, created_at=100.0)
BACK = member("new", state=GATED, created_at=500.0)


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
        pytest.param(of((WAITING, 90.0), (GATED, None)), 90.0, Standing.OVERDUE, id="and nothing followed"),
        pytest.param(
            of((BOUND, 90.0), (WAITING, 95.0)), 92.0, Standing.OVERDUE, id="the first deadline counts"
        ),
        pytest.param(of((BOUND, 90.0)), 92.0, Standing.OVERDUE, id="a member was deleted before the start"),
        pytest.param(of((BOUND, 90.0), (BOUND, 90.0)), 92.0, Standing.STARTED, id="all run"),
        pytest.param(
            of((BOUND, None)), 999.0, Standing.STARTED, id="one that had started lost a member for good"
        ),
        pytest.param(of((BOUND, None), (GATED, None)), 159.0, Standing.STARTING, id="a member comes back"),
        pytest.param(
            of((WAITING, None), (WAITING, None)), 999.0, Standing.STARTING, id="without gates, no deadline"
        ),
        pytest.param(
            of((BOUND, None), (GATED, None), deadline_s=10.0), 110.0, Standing.OVERDUE, id="its own deadline"
        ),
        pytest.param(
            gang(FIRST, FURTHER, BACK, size=2),
            559.0,
            Standing.STARTING,
            id="a pod that comes back has time though a further one without a gate has waited for long",
        ),
        pytest.param(
            gang(FIRST, replace(FURTHER, state=GATED), BACK, size=2),
            559.0,
            Standing.STARTING,
            id="and though one behind the gate has",
        ),
        pytest.param(gang(FIRST, FURTHER, BACK, size=2), 560.0, Standing.OVERDUE, id="but no more time"),
        pytest.param(gang(FIRST, FURTHER, size=2), 1e6, Standing.STARTING, id="no pod has come back"),
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
    ],
)
def test_late_gangs_are_given_up(gangs: list[Gang[Ask]], reach: dict[str, str], expected: list[str]) -> None:
    found = given_up(gangs, 100.0, POLICY, lambda each: frozenset(reach.get(each.key.name, "")))
    assert [each.key.name for each in found] == expected
