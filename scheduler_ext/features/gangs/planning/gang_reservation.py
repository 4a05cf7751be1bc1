"""The places that are kept for a gang that does not fit yet, and the pods that may use them meanwhile.
Without them, smaller pods take every GPU that becomes free, and a gang never finds enough at one time."""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from scheduler_ext.core.cycle.placing import BestNode
from scheduler_ext.core.request.gang_request import GangKey
from scheduler_ext.features.gangs.planning.draining import Draining, Running, Topology, remove_all
from scheduler_ext.features.gangs.planning.gang import Gang, Member
from scheduler_ext.features.gangs.planning.gang_fit import Domain, best_places, required_domains
from scheduler_ext.features.gangs.planning.placed_gang import PlacedGang
from scheduler_ext.features.gangs.planning.widening import widening

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GangReservation(Generic[T]):
    """Places by member, which are free once the pods `awaited` (uids) have left. `starts_at` is the time by
    which that is the case; None if one of them does not state its end, or all leave already. `part` are the
    nodes that could take a member at all: no other gang reserves there. `evicts_below` is the priority
    below which the gang evicts pods; None: it evicts none. `turn` is the gang's in the order of pods, as in
    `Gang.turn`: pods before it are not bound by the reservation; None: all pods are."""

    key: GangKey
    members: tuple[Member[T], ...]
    places: Mapping[str, str]
    awaited: frozenset[str]
    starts_at: float | None
    part: frozenset[str]
    evicts_below: int | None = None
    turn: tuple[int, float] | None = None

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(self.places.values())


def part_of(gang: Gang[T], cluster: Draining[T]) -> frozenset[str]:
    """The nodes that could take one of the joining members."""
    seen: set[object] = set()
    nodes: frozenset[str] = frozenset()
    for member in gang.joining:
        if member.kind is None or member.kind not in seen:
            seen.add(member.kind)
            more = frozenset(cluster.within_reach(member.ask))
            nodes = nodes | more if nodes else more
    return nodes


def reserve(
    gang: Gang[T],
    cluster: Draining[T],
    running: Sequence[Running],
    topology: Topology,
    part: frozenset[str],
    previous: GangReservation[T] | None = None,
) -> GangReservation[T] | None:
    """The places that are free at the earliest time, by the stated ends of `running`, the pods that may be
    waited for. Where pods without an end are needed too, those that started last are waited for (a pod that
    has run for long will run for long), and as few as suffice. The places of `previous` are kept unless
    others are free earlier or wait for fewer pods. None if the gang does not fit even without any of the
    pods. The cluster is unchanged."""
    here = [pod for pod in running if pod.node in part and pod.gang != gang.key]
    found = [_kept(gang, cluster, here, part, previous) if previous is not None else None]
    found.append(_fresh(gang, cluster, here, topology, part))
    return min((each for each in found if each is not None), key=_lateness, default=None)


def _median_end(pods: Sequence[Running]) -> tuple[float, int]:
    """When half of a node's pods will have ended."""
    ends = sorted(
        float("-inf") if pod.leaving else float("inf") if pod.ends_at is None else pod.ends_at for pod in pods
    )
    return (ends[len(ends) // 2] if ends else float("-inf")), len(ends)


def _lateness(reservation: GangReservation[T]) -> tuple[bool, float, int]:
    starts_at = reservation.starts_at
    return starts_at is None, starts_at or 0.0, len(reservation.awaited) if starts_at is None else 0


def _fresh(
    gang: Gang[T], cluster: Draining[T], running: Sequence[Running], topology: Topology, part: frozenset[str]
) -> GangReservation[T] | None:
    """The places of the domain for which the last pod that is waited for leaves first."""
    pods_of: dict[str, list[Running]] = {}
    for pod in running:
        pods_of.setdefault(pod.node, []).append(pod)
    best: _Gone | None = None
    for domain in required_domains(gang, topology, part):
        assert domain.nodes is not None
        there = [pod for node in domain.nodes for pod in pods_of.get(node, ())]
        for nodes in widening(domain.nodes, there, _median_end):
            gone = sorted((pod for pod in there if pod.node in nodes), key=_turn)
            if best is not None:
                gone = gone[: bisect_left(gone, best.last, key=_turn)]
                if not gone:
                    continue
            if (found := _gone(gang, cluster, gone, domain)) is not None:
                best = found
                break
    if best is None:
        return None
    mark = cluster.mark()
    remove_all(cluster, best.pods)
    places = best_places(gang, cluster, topology, best.nodes) or best.places
    cluster.rollback(mark)
    return _reservation(gang, places, best.pods, part)


@dataclass(frozen=True, slots=True)
class _Gone:
    """Pods that leave, in their order, and the places that a gang then has on these nodes."""

    pods: Sequence[Running]
    nodes: frozenset[str] | None
    places: Mapping[str, str]

    @property
    def last(self) -> tuple[bool, float, str]:
        return _turn(self.pods[-1]) if self.pods else (False, float("-inf"), "")


def _gone(gang: Gang[T], cluster: Draining[T], pods: Sequence[Running], domain: Domain) -> _Gone | None:
    """The first of these pods, in the order in which they are waited for, after which the gang fits; if some
    of them have no known end, only those without which it does not. None if it does not fit."""
    mark = cluster.mark()
    remove_all(cluster, pods)
    placed = PlacedGang.of(gang.joining, cluster, domain)
    if placed is None:
        cluster.rollback(mark)
        return None
    ends = bisect_left(pods, True, key=lambda pod: _turn(pod)[0])
    gone = placed.spare(reversed(pods[ends:]), lambda pod: (pod,))
    if gone:
        gone += placed.spare(reversed(pods[:ends]), lambda pod: (pod,))
        gone.reverse()
    else:
        while ends and placed.bring_back(pods[ends - 1 : ends]):
            ends -= 1
        gone += pods[:ends]
    places = placed.places
    cluster.rollback(mark)
    return _Gone(gone, domain.nodes, places)


def _turn(pod: Running) -> tuple[bool, float, str]:
    """The order in which pods are waited for: by their ends, then those that started last."""
    if pod.leaving:
        return False, float("-inf"), pod.uid
    if pod.ends_at is not None:
        return False, pod.ends_at, pod.uid
    return True, float("-inf") if pod.pod.started_at is None else -pod.pod.started_at, pod.uid


def _reservation(
    gang: Gang[T], places: Mapping[str, str], gone: Sequence[Running], part: frozenset[str]
) -> GangReservation[T]:
    nodes = set(places.values())
    waited = [pod for pod in gone if pod.node in nodes]
    ends = [pod.ends_at for pod in waited if not pod.leaving]
    known = [end for end in ends if end is not None]
    starts_at = max(known) if known and len(known) == len(ends) else None
    return GangReservation(
        gang.key, gang.joining, places, frozenset(pod.uid for pod in waited), starts_at, part
    )


def _kept(
    gang: Gang[T],
    cluster: Draining[T],
    running: Sequence[Running],
    part: frozenset[str],
    previous: GangReservation[T],
) -> GangReservation[T] | None:
    """The same places, if the pods that were waited for still are the only ones in the way."""
    if previous.key != gang.key or set(previous.places) != {member.uid for member in gang.joining}:
        return None
    gone = [pod for pod in running if pod.uid in previous.awaited]
    mark = cluster.mark()
    remove_all(cluster, gone)
    held = _put_all(gang.joining, previous.places, cluster)
    cluster.rollback(mark)
    if not held:
        return None
    return _reservation(gang, previous.places, gone, part)


def _put_all(members: Sequence[Member[T]], places: Mapping[str, str], cluster: Draining[T]) -> bool:
    for member in members:
        node = places[member.uid]
        if node not in cluster.nodes or cluster.best(member.ask, (node,)) is None:
            return False
        cluster.put(member.ask, node)
    return True


def not_taken(
    gang: Gang[T], kept: GangReservation[T], cluster: Draining[T], running: Sequence[Running]
) -> GangReservation[T] | None:
    """The places of a reservation that others have not got meanwhile; None if no place is left."""
    mark = cluster.mark()
    remove_all(cluster, [pod for pod in running if pod.uid in kept.awaited])
    there = [member for member in gang.joining if member.uid in kept.places]
    members = tuple(member for member in there if _put_all((member,), kept.places, cluster))
    cluster.rollback(mark)
    if not members:
        return None
    return replace(kept, members=members, places={each.uid: kept.places[each.uid] for each in members})


class Backfill(Generic[T]):
    """A cluster with reservations, and places on it that do not disturb them. A pod may use a kept place if
    it ends by the time that the gang starts, or if the gang would evict it; elsewhere, and in room that the
    gang leaves on its nodes, any pod may be."""

    def __init__(
        self, cluster: Draining[T], running: Sequence[Running], now: float, starting_s: float = 0.0
    ) -> None:
        self._cluster = cluster
        # A pod that is planned now starts a little later, and ends by so much later.
        self._start = now + starting_s
        self._running: dict[str, list[Running]] = {}
        for pod in running:
            self.add(pod)
        self.reservations: list[GangReservation[T]] = []
        # The last nodes with places, and those without: they are the same for many gangs.
        self._open: tuple[frozenset[str], frozenset[str]] | None = None

    def add(self, pod: Running) -> None:
        """A further pod that gangs may wait for."""
        self._running.setdefault(pod.node, []).append(pod)

    def remove(self, uid: str, node: str) -> None:
        """A pod is not there any more."""
        self._running[node] = [pod for pod in self._running.get(node, ()) if pod.uid != uid]

    def place(
        self,
        ask: T,
        priority: int,
        max_duration_s: float | None,
        among: Collection[str] | None = None,
        turn: tuple[int, float] | None = None,
    ) -> BestNode | None:
        """The best place for a pod that comes after the gangs with reservations, except those before which
        its `turn` is."""
        binding = [
            each
            for each in self.reservations
            if not self._ends_before(each, priority, max_duration_s)
            and not (turn is not None and each.turn is not None and turn < each.turn)
        ]
        place = self._cluster.best(ask, among)
        refused: set[str] = set()
        while place is not None and any(self._disturbs(ask, place.node, each) for each in binding):
            refused.add(place.node)
            names = self._cluster.nodes if among is None else among
            left = [name for name in names if name not in refused]
            place = self._cluster.best(ask, left) if left else None
        return place

    def open_nodes(self, priority: int, max_duration_s: float | None) -> frozenset[str] | None:
        """The nodes without places that such a pod must leave free; None: all."""
        kept: frozenset[str] = frozenset().union(
            *(
                each.nodes
                for each in self.reservations
                if not self._ends_before(each, priority, max_duration_s)
            )
        )
        if not kept:
            return None
        if self._open is None or self._open[0] != kept:
            self._open = kept, frozenset(self._cluster.nodes) - kept
        return self._open[1]

    def _ends_before(self, kept: GangReservation[T], priority: int, max_duration_s: float | None) -> bool:
        if kept.evicts_below is not None and priority < kept.evicts_below:
            return True
        return (
            kept.starts_at is not None
            and max_duration_s is not None
            and self._start + max_duration_s <= kept.starts_at
        )

    def _disturbs(self, ask: T, node: str, kept: GangReservation[T]) -> bool:
        """Whether the pod would take a kept place: without the pods that are waited for, the node then no
        longer has room for the members that are to come there."""
        if node not in kept.nodes:
            return False
        cluster = self._cluster
        mark = cluster.mark()
        remove_all(cluster, (pod for pod in self._running.get(node, ()) if pod.uid in kept.awaited))
        members = [member for member in kept.members if kept.places[member.uid] == node]
        held = _put_all(members, kept.places, cluster) and cluster.best(ask, (node,)) is not None
        cluster.rollback(mark)
        return not held
