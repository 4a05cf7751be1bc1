"""A gang that has places once pods have left, and those of the pods that need not leave for it."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from scheduler_ext.features.gangs.planning.draining import Draining, Running, bring_all_back
from scheduler_ext.features.gangs.planning.gang import Member
from scheduler_ext.features.gangs.planning.gang_fit import ORDERS, Domain, GangFit, in_domain, kind_of

T = TypeVar("T")
U = TypeVar("U")

# Different members are placed from the beginning until so many places were tried in vain.
_TRIED_IN_VAIN = 2048


class PlacedGang(Generic[T]):
    """Members on a cluster that pods have left. When pods come back, only the members on their nodes move: to
    place a large gang again for each pod takes minutes. Members that ask the same find places in this way
    whenever there are any; different members are also placed again, all of them, where it fails."""

    def __init__(self, members: Sequence[Member[T]], cluster: Draining[T], domain: Domain, found: GangFit):
        """The members have the places `found` in this domain."""
        self._members = members
        self._cluster = cluster
        self._domain = domain
        self._is_mixed = len({kind_of(member) for member in members}) > 1
        self._tries_left = _TRIED_IN_VAIN // (ORDERS * max(1, len(members))) if self._is_mixed else 0
        # Kinds whose next member would find no place. Only moves of members make room.
        self._full: set[Hashable] = set()
        # Kinds for which this holds even if the members of no other kind were there.
        self._tight: set[Hashable] = set()
        self._take(found)

    @classmethod
    def of(cls, members: Sequence[Member[T]], cluster: Draining[T], domain: Domain) -> "PlacedGang[T] | None":
        """The gang once its members have places in a domain; None if they find none, and the cluster is
        unchanged."""
        found = in_domain(members, cluster, domain)
        return cls(members, cluster, domain, found) if isinstance(found, GangFit) else None

    @property
    def places(self) -> dict[str, str]:
        """The node of each member, by uid."""
        return {member.uid: node for node, there in self._on.items() for member in there}

    def spare(self, units: Iterable[U], pods_of: Callable[[U], Sequence[Running]]) -> list[U]:
        """Of pods that have left together, those that remain gone when each group in turn comes back unless a
        member finds no place then."""
        gone = [unit for unit in units if not self.bring_back(pods_of(unit))]
        while self._is_mixed and gone:
            # Once one is back, the places differ, and another one may come back.
            fewer = [unit for unit in gone if not self.bring_back(pods_of(unit))]
            if len(fewer) == len(gone):
                break
            gone = fewer
        return gone

    def bring_back(self, pods: Sequence[Running]) -> bool:
        """These pods are on their nodes again, if all members find places beside them; otherwise they are
        not."""
        mark, nodes = self._cluster.mark(), dict.fromkeys(pod.node for pod in pods)
        there = [(member, node) for node in nodes for member in self._on.get(node, ())]
        there.sort(key=lambda pair: kind_of(pair[0]) not in self._tight)
        for member, node in there:
            self._cluster.take_back(member.ask, node)
        bring_all_back(self._cluster, pods)
        left = self._move(there)
        if left is None:
            return True
        self._cluster.rollback(mark)
        if kind_of(left) not in self._full and self._cluster.best(left.ask, self._domain.nodes) is None:
            self._full.add(kind_of(left))
        if not self._tries_left or kind_of(left) in self._tight:
            return False
        if self._is_tight(left):
            self._tight.add(kind_of(left))
            return self.bring_back(pods)
        return self._place_all(pods)

    def _move(self, there: Sequence[tuple[Member[T], str]]) -> Member[T] | None:
        """Places for these members, which were on these nodes: there, or elsewhere. Returns one that finds
        none; then the cluster is changed, and what is known of places is not."""
        cluster, staying, moving = self._cluster, list[tuple[Member[T], str]](), list[Member[T]]()
        for member, node in there:
            if cluster.best(member.ask, (node,)) is None:
                moving.append(member)
            else:
                cluster.put(member.ask, node)
                staying.append((member, node))
        for member in moving:
            full = kind_of(member) in self._full
            place = None if full else cluster.best(member.ask, self._domain.nodes)
            if place is None:
                return member
            cluster.put(member.ask, place.node)
            staying.append((member, place.node))
        for _, node in there:
            self._on.pop(node, None)
        for member, node in staying:
            self._on.setdefault(node, []).append(member)
        if moving:
            self._full.clear()
        return None

    def _is_tight(self, member: Member[T]) -> bool:
        mark = self._cluster.mark()
        self._take_back(except_for=kind_of(member))
        found = self._cluster.best(member.ask, self._domain.nodes)
        self._cluster.rollback(mark)
        return found is None

    def _place_all(self, pods: Sequence[Running]) -> bool:
        mark = self._cluster.mark()
        self._take_back()
        bring_all_back(self._cluster, pods)
        found = in_domain(self._members, self._cluster, self._domain)
        if isinstance(found, GangFit):
            self._take(found)
            return True
        self._cluster.rollback(mark)
        self._tries_left -= 1
        return False

    def _take_back(self, except_for: Hashable = None) -> None:
        for node, there in self._on.items():
            for member in there:
                if kind_of(member) != except_for:
                    self._cluster.take_back(member.ask, node)

    def _take(self, found: GangFit) -> None:
        self._full.clear()
        self._on: dict[str, list[Member[T]]] = {}
        for member in self._members:
            self._on.setdefault(found.places[member.uid].node, []).append(member)
