"""Whether the members of a gang fit together: all of them, in one domain if the gang asks for that, or
none."""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from scheduler_ext.core.cycle.placing import BestNode, Placing
from scheduler_ext.features.gangs.planning.draining import Topology
from scheduler_ext.features.gangs.planning.gang import Gang, Member

T = TypeVar("T")

About = Callable[[T, Collection[str] | None], Any]
"""Why nodes refuse a pod that has no place, of those that it was tried on (None: all)."""

# Orders of different members that are tried before the gang counts as not fitting.
ORDERS = 8
# Domains of one size that are compared by their totals once the gang fits in one of them.
COMPARED = 16


@dataclass(frozen=True, slots=True)
class Domain:
    """Nodes with the same value of a label; `key` is None for the whole cluster (`nodes` None)."""

    key: str | None = None
    value: str = ""
    nodes: frozenset[str] | None = None

    def __str__(self) -> str:
        return f"{self.key}={self.value}" if self.key else "the cluster"


@dataclass(frozen=True, slots=True)
class GangFit:
    """A place for each member, by uid."""

    places: Mapping[str, BestNode]
    domain: Domain = field(default_factory=Domain)

    @property
    def total(self) -> float:
        return sum(place.total for place in self.places.values())


@dataclass(frozen=True, slots=True)
class GangMiss(Generic[T]):
    """The nearest that a gang came to fitting: the members that found a place, with its node, and those left
    over. `about` has by kind what was asked about those, while the others had their places."""

    placed: tuple[tuple[Member[T], str], ...]
    unplaced: tuple[Member[T], ...]
    domain: Domain = field(default_factory=Domain)
    about: Mapping[Hashable, Any] = field(default_factory=dict)

    def about_each(self, gang: Gang[T]) -> dict[str, Any]:
        """The same by uid of each pod that waits and is of a kind without a place."""
        waiting = (each for each in gang.members if each.is_unbound)
        return {each.uid: self.about[kind_of(each)] for each in waiting if kind_of(each) in self.about}


def kind_of(member: Member[T]) -> Hashable:
    """Members of one kind ask the same."""
    return member.uid if member.kind is None else member.kind


def fit(
    gang: Gang[T],
    cluster: Placing[T],
    topology: Topology,
    among: Collection[str] | None = None,
    members: Sequence[Member[T]] | None = None,
    about: About[T] | None = None,
) -> GangFit | GangMiss[T]:
    """Places for the members that have no node (or for `members`), on nodes of `among` only (None: all). If
    all of them fit, they are on the cluster afterwards; otherwise it is unchanged. Of the domains that take
    the gang whole, the one with the fewest nodes is chosen, then the one with the highest total. `about` is
    asked about the members without a place of the nearest miss."""
    members = gang.joining if members is None else members
    best: GangFit | None = None
    nearest: GangMiss[T] | None = None
    compared, mark = 0, cluster.mark()
    for domain in domains(gang, topology, among):
        if best is not None and (_rank(domain) != _rank(best.domain) or compared == COMPARED):
            break
        found = in_domain(members, cluster, domain, nearest, about)
        cluster.rollback(mark)
        if isinstance(found, GangMiss):
            nearest = found
            continue
        compared += 1
        if best is None or found.total > best.total:
            best = found
    if best is not None:
        for member in members:
            cluster.put(member.ask, best.places[member.uid].node)
        return best
    return nearest or GangMiss((), tuple(members))


def best_places(
    gang: Gang[T], cluster: Placing[T], topology: Topology, among: Collection[str] | None = None
) -> Mapping[str, str] | None:
    """The node of each member, by uid, that `fit` chooses; None without any. The cluster is unchanged."""
    mark = cluster.mark()
    found = fit(gang, cluster, topology, among)
    cluster.rollback(mark)
    if isinstance(found, GangMiss):
        return None
    return {uid: place.node for uid, place in found.places.items()}


def domains(gang: Gang[T], topology: Topology, among: Collection[str] | None = None) -> Iterator[Domain]:
    """The parts of the cluster to try: domains of the preferred label within those of the required one, then
    without the preference; of each kind, the smallest first."""
    gang_request, required = gang.request, required_domains(gang, topology, among)
    if gang_request.preferred_topology is not None:
        yield from sorted(
            (
                inner
                for outer in required
                for inner in _split(outer, gang_request.preferred_topology, topology)
            ),
            key=_order,
        )
    yield from required


def required_domains(
    gang: Gang[T], topology: Topology, among: Collection[str] | None = None
) -> Sequence[Domain]:
    """The domains, one of which has to hold the whole gang, the smallest first. Members that are bound
    fix it."""
    allowed, key = Domain(nodes=None if among is None else frozenset(among)), gang.request.required_topology
    if key is None:
        return [allowed]
    found, values = _split(allowed, key, topology), topology.get(key, {})
    if fixed := {value for node in gang.nodes if (value := values.get(node))}:
        found = [domain for domain in found if domain.value in fixed]
    return sorted(found, key=_order)


def _split(outer: Domain, key: str, topology: Topology) -> list[Domain]:
    nodes: dict[str, set[str]] = {}
    for node, value in topology.get(key, {}).items():
        if outer.nodes is None or node in outer.nodes:
            nodes.setdefault(value, set()).add(node)
    return [Domain(key, value, frozenset(names)) for value, names in nodes.items()]


def _rank(domain: Domain) -> tuple[str | None, int]:
    return domain.key, len(domain.nodes or ())


def _order(domain: Domain) -> tuple[int, str]:
    return len(domain.nodes or ()), domain.value


def in_domain(
    members: Sequence[Member[T]],
    cluster: Placing[T],
    domain: Domain,
    nearest: GangMiss[T] | None = None,
    about: About[T] | None = None,
) -> GangFit | GangMiss[T]:
    """Places in one domain, which the members then have on the cluster; or the nearest miss, which is that of
    former domains unless more members found places in this one. Members that found no place go first in the
    next order: that finds room for large members which small ones had taken. A first member without a place
    has none in any order."""
    order = list(members)
    mark = cluster.mark()
    for _ in range(ORDERS):
        cluster.rollback(mark)
        places, left = _one_by_one(order, cluster, domain.nodes)
        if not left:
            return GangFit(places, domain)
        if nearest is None or len(places) > len(nearest.placed):
            placed = tuple((each, places[each.uid].node) for each in order if each.uid in places)
            asks = {kind_of(each): each.ask for each in left} if about is not None else {}
            answers = {kind: about(ask, domain.nodes) for kind, ask in asks.items()} if about else {}
            nearest = GangMiss(placed, tuple(left), domain, answers)
        uids = {member.uid for member in left}
        following = [*left, *(member for member in order if member.uid not in uids)]
        if left[0] is order[0] or _ask_alike(following, order):
            break
        order = following
    cluster.rollback(mark)
    assert nearest is not None
    return nearest


def _ask_alike(one: Sequence[Member[T]], other: Sequence[Member[T]]) -> bool:
    """Whether these orders find the same places."""
    return all(
        mine is theirs or (mine.kind is not None and mine.kind == theirs.kind)
        for mine, theirs in zip(one, other, strict=True)
    )


def _one_by_one(
    order: Sequence[Member[T]], cluster: Placing[T], among: Collection[str] | None
) -> tuple[dict[str, BestNode], list[Member[T]]]:
    """Places in this order, and the members without one. A member of the kind of one without a place has
    none either."""
    places: dict[str, BestNode] = {}
    left: list[Member[T]] = []
    for member in order:
        if member.kind is not None and any(member.kind == other.kind for other in left):
            left.append(member)
            continue
        place = cluster.best(member.ask, among)
        if place is None:
            left.append(member)
        else:
            places[member.uid] = place
            cluster.put(member.ask, place.node)
    return places, left
