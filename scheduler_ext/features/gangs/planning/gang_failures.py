"""Starts of gangs that failed: why, and the nodes that are left out of the next ones, so that a gang is not
evicted again for what kube-scheduler knows and the planner does not."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from scheduler_ext.features.gangs.planning.gang import Gang, Member, MemberState
from scheduler_ext.features.gangs.planning.gang_bounds import Keeping

T = TypeVar("T")

# For how long a node is left out that kube-scheduler refused: from then on, twice as long after each failure.
# After an error, which ends with its cause, it is a short time at first.
_REFUSED_S, _TIMES = 300.0, 2.0
_ERROR_S, _ERROR_TIMES = 8.0, 4.0
_LONGEST_S = 3600.0
# A failure is remembered for so long after its nodes are used again.
_REMEMBERED_S = 3600.0
# kube-scheduler's message has a part for each reason of each kind of node.
_TEXT = 300


@dataclass(frozen=True, slots=True)
class GangFailure:
    """A gang did not start by its `deadline`; `why` is a sentence. It is planned on none of `nodes` before
    `until`. It was the `count`-th failure in turn. Times are in seconds."""

    deadline: float
    why: str
    nodes: frozenset[str] = frozenset()
    until: float = 0.0
    count: int = 1

    def left_out(self, now: float) -> frozenset[str]:
        """The nodes that are left out now."""
        return self.nodes if now < self.until else frozenset()

    def is_over(self, now: float) -> bool:
        """Whether a further failure would be the first one."""
        return now >= max(self.until, self.deadline) + _REMEMBERED_S


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a planner knows of a gang beyond its pods, for the next planner."""

    failure: GangFailure | None = None
    keeping: Keeping | None = None


def failure(
    gang: Gang[T], deadline: float, before: GangFailure | None, now: float, fits: Callable[[Member[T]], bool]
) -> GangFailure:
    """The failure of a gang whose time is over; that `before` if it is the same. `fits` says whether a member
    fits on its node as far as the planner knows: only then another try there would fail alike. The nodes that
    are left out already stay so, for as long as the new ones."""
    if before is not None and before.deadline == deadline:
        return before
    count = 1 if before is None or before.is_over(now) else before.count + 1
    late = [member for member in gang.team if member.state is MemberState.WAITING]
    refused = [member for member in late if member.refusal is not None]
    nodes = frozenset(member.node for member in refused if member.node is not None and fits(member))
    out = before.left_out(now) if before is not None else frozenset()
    until = before.until if before is not None and out else 0.0
    if not refused:
        missing = gang.missing + sum(member.state is MemberState.GATED for member in gang.team)
        why = "kube-scheduler did not come to a member in time" if late else f"{missing} pods were missing"
        return GangFailure(deadline, why, out, until, count)
    first = min(refused, key=lambda member: (member.node not in nodes, member.uid))
    assert first.refusal is not None
    at = f"on {first.node}, " if first.node is not None else ""
    why = f"{at}{first.refusal.text[:_TEXT]}"
    start_s, times = (_ERROR_S, _ERROR_TIMES) if first.refusal.is_error else (_REFUSED_S, _TIMES)
    pause_s = min(start_s * times ** min(count - 1, 30), _LONGEST_S)
    if nodes or not out:
        until = max(until, now + pause_s)
    return GangFailure(deadline, why, nodes | out, until, count)
