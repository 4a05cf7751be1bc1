"""What happens to a gang that has begun: it has started, its members still have time, or their time is up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from scheduler_ext.core.request.gang_request import OnDeadline
from scheduler_ext.features.gangs.planning.gang import Gang, MemberState

T = TypeVar("T")

# The nominations of a gang are written before its gates go, all with one deadline. When they go, it may be so
# much of its time earlier than from then on.
_EARLIER = 0.25
# The longest time in seconds that the write of a nomination takes, in a large gang, and the time until the
# planner has seen all of them, on a busy machine.
_WRITE_S = 0.02
_SEEN_S = 5.0
# Deadlines are written in whole seconds.
_ROUNDED_S = 1.0


@dataclass(frozen=True, slots=True)
class DeadlinePolicy:
    """For gangs that do not say otherwise: seconds from the end of the gates to the start of the last
    member, and what happens then."""

    deadline_s: float = 300.0
    on_deadline: OnDeadline = OnDeadline.EVICT

    def seconds(self, gang: Gang[T]) -> float:
        return self.deadline_s if gang.request.deadline_s is None else gang.request.deadline_s

    def start_by(self, gang: Gang[T], now: float) -> float:
        """The deadline to write for a gang that has not begun. It stays the same while nominations are being
        written, and is later for a gang whose nominations need long."""
        seconds = self.seconds(gang)
        least = now + (1 - _EARLIER) * seconds
        latest = least + max(_EARLIER * seconds, _SEEN_S + _WRITE_S * len(gang.joining))
        written = [member.deadline for member in gang.joining if member.deadline is not None]
        usable = [until for until in written if least <= until <= latest + _ROUNDED_S]
        return max(usable, default=latest)

    def action(self, gang: Gang[T]) -> OnDeadline:
        return self.on_deadline if gang.request.on_deadline is None else gang.request.on_deadline


class Standing(Enum):
    """Where a gang is in its life."""

    ASSEMBLING = "not all pods exist"
    READY = "all pods exist, and none has begun"
    STARTING = "the gates went, and a place is kept for each member"
    OVERDUE = "a member has not started in time"
    STARTED = "all members run"


def standing(gang: Gang[T], now: float, policy: DeadlinePolicy) -> Standing:
    """Where the gang is. A member of a gang that has started and lost a pod has the same time, from
    its creation."""
    if not gang.has_begun:
        return Standing.ASSEMBLING if gang.missing else Standing.READY
    if gang.missing == 0 and not any(member.is_unbound for member in gang.team):
        return Standing.STARTED
    if gang.has_started and not any(member.is_unbound for member in gang.team):
        return Standing.STARTED
    until = deadline(gang, policy)
    return Standing.OVERDUE if until is not None and now >= until else Standing.STARTING


def deadline(gang: Gang[T], policy: DeadlinePolicy) -> float | None:
    """The time by which a gang that has begun must have started. None if it began without the planner: its
    pods had no gate, so nothing was promised to them."""
    if gang.has_started:
        lost = sum(member.is_unbound for member in gang.team)
        # Further pods may have waited since long before the gang lost some: without a gate, they were alone;
        # otherwise those that came back are newer.
        unbound = (member for member in gang.members if member.is_unbound)
        back = [each for each in unbound if each.state is MemberState.GATED or each.deadline is not None]
        joined = sorted(each.created_at for each in back)[-lost:] if lost else []
        return joined[0] + policy.seconds(gang) if joined else None
    begun = [
        member.deadline
        for member in gang.members
        if member.state in (MemberState.WAITING, MemberState.BOUND) and member.deadline is not None
    ]
    return min(begun, default=None)


def given_up(
    gangs: Sequence[Gang[T]], now: float, policy: DeadlinePolicy, reach: Callable[[Gang[T]], frozenset[str]]
) -> list[Gang[T]]:
    """The overdue gangs that are evicted whole: their pods come back behind gates. One that holds its places
    beyond its deadline may do so as long as no gang before it in the order does the same on a node within its
    `reach`: two of them could wait for each other."""
    evicted = []
    held: list[frozenset[str]] = []
    for gang in gangs:
        if standing(gang, now, policy) is not Standing.OVERDUE:
            continue
        if policy.action(gang) is OnDeadline.HOLD and not any(reach(gang) & other for other in held):
            held.append(reach(gang))
        else:
            evicted.append(gang)
    return evicted
