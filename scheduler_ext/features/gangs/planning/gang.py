"""Gangs: pods that start together or not at all, as the cluster shows them. A gang has no object of its own:
its request is on each member, and its state follows from the states of its members."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from scheduler_ext.core.request.gang_request import GangKey, GangRequest, OnDeadline

T = TypeVar("T")


class MemberState(Enum):
    """How far a member is. A pod that failed or is being deleted is no member."""

    GATED = "gated"
    WAITING = "waiting"
    BOUND = "bound"
    DONE = "done"


class Refusal(NamedTuple):
    """What kube-scheduler says of a pod that it did not bind; after an error it may do so soon."""

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Member(Generic[T]):
    """A pod of a gang, with the description `ask` that the cluster understands. `node` is where it is bound,
    or where a nomination of the planner keeps its place. `deadline` is what the planner wrote in the pod's
    status with its nomination: the time by which the whole gang must have started, None before that and again
    once it has (seconds of wall time). `max_duration_s` is the longest time that it runs, if stated. Members
    of one `kind` ask the same; None: unknown. `preempts` is False for one that may not cause evictions. One
    that `has_other_place` was nominated by another component, and that place is held already. One that is
    `binding` has its room on the cluster, at `node`: a Binding is in flight, and may still fail. `refusal` is
    why kube-scheduler has not bound it."""

    uid: str
    ask: T
    state: MemberState
    priority: int = 0
    created_at: float = 0.0
    node: str | None = None
    deadline: float | None = None
    max_duration_s: float | None = None
    kind: Hashable = None
    preempts: bool = True
    has_other_place: bool = False
    binding: bool = False
    refusal: Refusal | None = None

    @property
    def is_unbound(self) -> bool:
        return self.state in (MemberState.GATED, MemberState.WAITING)


@dataclass(frozen=True, slots=True)
class Gang(Generic[T]):
    """A gang and its pods, those that are farthest first. `problem` says why it cannot be planned."""

    request: GangRequest
    members: tuple[Member[T], ...]
    problem: str | None = None

    @property
    def key(self) -> GangKey:
        return self.request.key

    @property
    def team(self) -> tuple[Member[T], ...]:
        """The members that the start is about; further ones join a gang that has started."""
        return self.members[: self.request.size]

    @property
    def joining(self) -> tuple[Member[T], ...]:
        """The members that have no node yet and are to get one: further ones once all of the team have."""
        is_whole = self.has_started and not any(member.is_unbound for member in self.team)
        among = self.members if is_whole else self.team
        return tuple(
            member
            for member in among
            if member.is_unbound and not member.has_other_place and not member.binding
        )

    @property
    def nodes(self) -> frozenset[str]:
        """Where members are, or are being bound."""
        there = (member for member in self.members if member.state is MemberState.BOUND or member.binding)
        return frozenset(member.node for member in there if member.node)

    @property
    def bound(self) -> tuple[Member[T], ...]:
        return tuple(member for member in self.members if member.state is MemberState.BOUND)

    @property
    def missing(self) -> int:
        """How many pods do not exist yet."""
        return max(0, self.request.size - len(self.members))

    @property
    def has_begun(self) -> bool:
        """Whether a member can start without the others: it is bound, or its gate is gone."""
        return any(member.state in (MemberState.WAITING, MemberState.BOUND) for member in self.members)

    def is_promised(self, now: float) -> bool:
        """Whether the planner has started it, and its time is not over: all members that lack a node have a
        deadline. With a pod without one a gang has its turn, whatever else is bound: its owner can make such
        pods, and gates go, at any time."""
        return (
            self.has_begun
            and bool(self.joining)
            and all(member.deadline is not None and now < member.deadline for member in self.joining)
        )

    @property
    def has_started(self) -> bool:
        """Whether all of it ran at one time: then its members have no deadline any more, or have ended."""
        running = self.bound
        if not running:
            return sum(member.state is MemberState.DONE for member in self.members) >= self.request.size
        return all(member.deadline is None for member in running)

    @property
    def priority(self) -> int:
        """The lowest of its members': the gang may do what each of them may."""
        return min((member.priority for member in self.members), default=0)

    @property
    def preempts(self) -> bool:
        return all(member.preempts for member in self.members)

    def with_places(self, places: Mapping[str, str]) -> "Gang[T]":
        """The gang as if the members with these uids were bound to these nodes."""
        members = tuple(
            replace(member, state=MemberState.BOUND, node=places[member.uid])
            if member.uid in places
            else member
            for member in self.members
        )
        return replace(self, members=members)

    @property
    def created_at(self) -> float:
        return min((member.created_at for member in self.members), default=0.0)

    @property
    def turn(self) -> tuple[int, float]:
        """Its turn among pods, by priority and age."""
        return -self.priority, self.created_at

    @property
    def max_duration_s(self) -> float | None:
        """The longest time that any member runs; None if one of them does not state it."""
        stated = [member.max_duration_s for member in self.joining]
        longest = [each for each in stated if each is not None]
        return max(longest) if longest and len(longest) == len(stated) else None


def rank(gang: Gang[T]) -> tuple[int, float, GangKey]:
    """The order of gangs, kube-scheduler's: priority and age."""
    return *gang.turn, gang.key


_FARTHEST = {
    state: i
    for i, state in enumerate((MemberState.DONE, MemberState.BOUND, MemberState.WAITING, MemberState.GATED))
}


def gangs_of(pods: Iterable[tuple[GangRequest, Member[T]]]) -> list[Gang[T]]:
    """The gangs of these pods, in the order of `rank`. Members of one gang that contradict each other make a
    gang with a problem."""
    found: dict[GangKey, list[tuple[GangRequest, Member[T]]]] = {}
    for gang_request, member in pods:
        found.setdefault(gang_request.key, []).append((gang_request, member))
    return sorted((_gang(each) for each in found.values()), key=rank)


def _gang(pods: list[tuple[GangRequest, Member[T]]]) -> Gang[T]:
    pods = sorted(pods, key=lambda pair: (_FARTHEST[pair[1].state], pair[1].created_at, pair[1].uid))
    gang_requests = list(dict.fromkeys(gang_request for gang_request, _ in pods))
    members = tuple(member for _, member in pods)
    problem = None
    if len(gang_requests) > 1:
        problem = (
            f"members of gang {gang_requests[0].key} contradict each other: {_difference(*gang_requests[:2])}"
        )
    return Gang(gang_requests[0], members, problem)


def _difference(one: GangRequest, other: GangRequest) -> str:
    fields = ("size", "required_topology", "preferred_topology", "deadline_s", "on_deadline")
    name = next(name for name in fields if getattr(one, name) != getattr(other, name))
    first, second = (_shown(getattr(each, name)) for each in (one, other))
    return f"{name.replace('_', ' ')} {first} and {second}; give all of its pods the same"


def _shown(value: object) -> str:
    if value is None:
        return "unset"
    return str(value.value) if isinstance(value, OnDeadline) else str(value)
