"""What a step of planning decides: actions for the cluster, and for each waiting pod or gang how it
stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from scheduler_ext.core.request.gang_request import GangKey
from scheduler_ext.features.gangs.planning.gang import Gang
from scheduler_ext.features.gangs.planning.gang_bounds import Keeping
from scheduler_ext.features.gangs.planning.gang_failures import GangFailure, Remembered
from scheduler_ext.features.gangs.planning.gang_fit import GangMiss
from scheduler_ext.features.gangs.planning.gang_reservation import GangReservation
from scheduler_ext.features.gangs.planning.plan import State

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Single(Generic[T]):
    """A waiting pod that belongs to no gang; `node` is where a nomination of the planner keeps its place."""

    uid: str
    ask: T
    priority: int = 0
    created_at: float = 0.0
    node: str | None = None
    max_duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict(Generic[T]):
    """How a gang (or the pod `uid`) stands after the step, in the order in which places are given. `miss` is
    the nearest that a gang came to fitting, and `refusals` has by uid, for pods of the kinds without a place
    there, the number of nodes that refuse them by reason. `reservation` is its own, `behind` the gang whose
    reservation is in the way. Of a gang for which no places are kept, `again_at` is when they are kept again,
    and `too_much` the part of the GPUs that they would be, above the part that is allowed. `failure` is why
    its last start failed, and `left_out` are the nodes that it does not use for that reason."""

    state: State
    gang: Gang[T] | None = None
    uid: str | None = None
    places: Mapping[str, str] = field(default_factory=dict)
    miss: GangMiss[T] | None = None
    refusals: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    reservation: GangReservation[T] | None = None
    behind: GangKey | None = None
    again_at: float | None = None
    too_much: tuple[float, float] | None = None
    failure: GangFailure | None = None
    left_out: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class GangNomination:
    """The node that keeps a place for a pod. `deadline` is the time by which a member's whole gang must have
    started; None for a pod alone, and for a gang that began without gates."""

    uid: str
    node: str
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Evict:
    """A pod that leaves for the gang `of`: as a victim, or `overdue` as one of its own members."""

    uid: str
    of: GangKey
    overdue: bool = False


@dataclass(frozen=True, slots=True)
class Decisions(Generic[T]):
    """In the order of execution: `settle` are members of gangs that have started, which lose their
    deadline; `evict` and `withdraw` (nominations that no longer hold; a member keeps its deadline) make
    room; each of `lift` has the gated members of one gang, whose gates go after all of its nominations have
    been written. `keeping` has for how long places have been kept for gangs that wait, and `failures` why
    the last starts of gangs failed."""

    settle: Sequence[str] = ()
    evict: Sequence[Evict] = ()
    withdraw: Sequence[str] = ()
    nominate: Sequence[GangNomination] = ()
    lift: Sequence[Sequence[str]] = ()
    reservations: Sequence[GangReservation[T]] = ()
    verdicts: Sequence[Verdict[T]] = ()
    keeping: Mapping[GangKey, Keeping] = field(default_factory=dict)
    failures: Mapping[GangKey, GangFailure] = field(default_factory=dict)

    def remembered(self, key: GangKey) -> Remembered:
        """What the next planner has to know of a gang."""
        return Remembered(self.failures.get(key), self.keeping.get(key))

    @property
    def in_line(self) -> tuple[int, float] | None:
        """The turn of the first gang that is still to be tried, or for which what comes before it is."""
        turns = (each.gang.turn for each in self.verdicts if each.gang and each.state is State.IN_LINE)
        return min(turns, default=None)
