"""Writes that the watch does not show yet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler_ext.features.gangs.live.own_writes import OwnWrites
from scheduler_ext.features.gangs.planning.gang import MemberState
from tests.features.gangs.live.test_gang_assembly import member

BOUND, WAITING, GATED = MemberState.BOUND, MemberState.WAITING, MemberState.GATED


@pytest.mark.parametrize(
    ("write", "on", "later_s", "expected"),
    [
        pytest.param(
            lambda writes: writes.placed("uid-a", "n1", 9.0),
            None,
            0,
            (GATED, "n1", 9.0),
            id="a nomination is seen at once",
        ),
        pytest.param(
            lambda writes: writes.lifted("uid-a"), None, 0, (WAITING, None, None), id="the end of a gate too"
        ),
        pytest.param(
            lambda writes: writes.gone("uid-a"), "n1", 0, (None, "n1", None), id="an evicted pod is no member"
        ),
        pytest.param(
            lambda writes: writes.placed("uid-a", "n1", None),
            "n2",
            0,
            (BOUND, "n2", None),
            id="a bound pod is where the cluster says",
        ),
        pytest.param(
            lambda writes: writes.placed("uid-a", "n1", 9.0),
            None,
            6,
            (GATED, None, None),
            id="the cluster decides after a while",
        ),
    ],
)
def test_a_member_is_as_it_was_written(
    write: Callable[[OwnWrites], None],
    on: str | None,
    later_s: int,
    expected: tuple[MemberState | None, str | None, float | None],
) -> None:
    now = 0.0
    writes = OwnWrites(lambda: now)
    write(writes)
    now += later_s
    (seen,) = writes.over([member("a", on=on)])
    assert (seen.state, seen.node or seen.nominated, seen.deadline) == expected
