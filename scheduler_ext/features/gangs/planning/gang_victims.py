"""The pods that leave so that a whole gang fits: the cheapest that two searches find, none of them in vain.
One goes member by member and takes the cheapest victims of one node for each; the other lets all pods of
low priority leave. Both then spare every pod that no member needs, the most important first.
PodDisruptionBudgets are kept: a set that violates one is no answer."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from scheduler_ext.core.preemption.disruption import Budget, most_important_first
from scheduler_ext.core.preemption.victim_search import Cost, Pricing
from scheduler_ext.core.request.gang_request import GangKey
from scheduler_ext.features.gangs.planning.draining import Draining, Running, Topology, remove_all
from scheduler_ext.features.gangs.planning.gang import Gang
from scheduler_ext.features.gangs.planning.gang_fit import (
    Domain,
    GangFit,
    best_places,
    fit,
    kind_of,
    required_domains,
)
from scheduler_ext.features.gangs.planning.placed_gang import PlacedGang
from scheduler_ext.features.gangs.planning.widening import widening

T = TypeVar("T")

# Sets over a budget that are tried again without the pods that exceed it.
_ATTEMPTS = 4

Proposals = Callable[[T, Sequence[Running], Sequence[Budget]], Iterable[tuple[str, Sequence[str]]]]
"""For a pod: nodes, each with the uids of the cheapest of these pods whose departure lets it in, the cheapest
first; the budgets are those that are left."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """The pods that leave, the least important first, and the places that the gang then has, by uid."""

    victims: tuple[Running, ...]
    places: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class _LeavingUnit:
    """Pods that leave together: the members of a gang, or one pod."""

    pods: tuple[Running, ...]

    @property
    def priority(self) -> int:
        return max(pod.pod.priority for pod in self.pods)


@dataclass(frozen=True, slots=True)
class _Spared:
    """Units that leave, and the places that the gang then has on these nodes."""

    units: Sequence[_LeavingUnit]
    nodes: frozenset[str] | None
    places: Mapping[str, str]


@dataclass(eq=False)
class _UnitSearch(Generic[T]):
    gang: Gang[T]
    cluster: Draining[T]
    topology: Topology
    part: frozenset[str]
    budgets: Sequence[Budget]

    def spare(self, units: Sequence[_LeavingUnit]) -> _Spared | None:
        """What remains of these units when every one that need not leave is spared, in the domain where that
        is cheapest; None if the gang fits in no domain without all of them."""
        there = {pod.node for pod in _pods(units)}
        domains = required_domains(self.gang, self.topology, self.part)
        found = [self._spared_in(each, units) for each in domains if not there.isdisjoint(each.nodes or ())]
        kept = [each for each in found if each is not None]
        return min(kept, key=lambda each: _price(_pods(each.units), self.budgets), default=None)

    def _spared_in(self, domain: Domain, units: Sequence[_LeavingUnit]) -> _Spared | None:
        """First those are spared that exceed a budget, then the most important."""
        here = [unit for unit in units if any(pod.node in (domain.nodes or ()) for pod in unit.pods)]
        over = _over(here, self.budgets)
        here.sort(key=lambda unit: (unit not in over, *_importance(unit)))
        mark, found = self.cluster.mark(), None
        remove_all(self.cluster, _pods(here))
        if (placed := PlacedGang.of(self.gang.joining, self.cluster, domain)) is not None:
            left = placed.spare(here, lambda unit: unit.pods)
            found = _Spared(left, domain.nodes, placed.places)
        self.cluster.rollback(mark)
        return found


def victims(
    gang: Gang[T],
    cluster: Draining[T],
    running: Sequence[Running],
    topology: Topology,
    part: frozenset[str],
    budgets: Sequence[Budget] = (),
    proposals: Proposals[T] | None = None,
) -> Eviction | None:
    """The cheapest victims for all joining members together; None if no eviction that is allowed makes the
    gang fit whole. `running` are pods of lower priority and pods that leave already, which cost nothing;
    `part` are the nodes that the gang may use. The cluster is unchanged. The highest priority among the
    victims is the lowest that suffices if no budget is in the way and the part has at most as many nodes as
    are looked at together; the number of victims is the smallest found."""
    mark = cluster.mark()
    remove_all(cluster, (pod for pod in running if pod.leaving and pod.node in part))
    search, answer = _UnitSearch(gang, cluster, topology, part, budgets), None
    if not isinstance(fit(gang, cluster, topology, part), GangFit):
        units = evictable(gang.priority, running, budgets)
        found = [
            _among_few(search, units),
            _kept_within(search, _member_by_member(search, units, proposals or _own(search))),
        ]
        answers = [each for each in found if each is not None]
        best = min(answers, key=lambda each: _price(_pods(each.units), budgets), default=None)
        if best is not None:
            pods = _pods(best.units)
            remove_all(cluster, pods)
            places = best_places(gang, cluster, topology, best.nodes) or best.places
            answer = Eviction(tuple(reversed(_by_importance(pods))), places)
    cluster.rollback(mark)
    return answer


def evictable(
    priority: int, running: Sequence[Running], budgets: Sequence[Budget] = ()
) -> list[_LeavingUnit]:
    """The pods that a gang of this priority may evict, by units, the least important first. A gang leaves
    whole, so one member that must stay keeps all of them. The Eviction API refuses a pod with several
    budgets."""
    together: dict[GangKey | str, list[Running]] = {}
    for pod in running:
        together.setdefault(pod.gang or pod.uid, []).append(pod)
    units = []
    for pods in together.values():
        staying = [pod for pod in pods if not pod.leaving and pod.planned is None]
        if staying and all(
            pod.pod.priority < priority and sum(budget.covers(pod.pod) for budget in budgets) <= 1
            for pod in staying
        ):
            units.append(_LeavingUnit(tuple(staying)))
    return sorted(units, key=_importance, reverse=True)


def _kept_within(search: _UnitSearch[T], units: Sequence[_LeavingUnit] | None) -> _Spared | None:
    """A sparing set that keeps all budgets; pods that exceed one stay in the next attempt."""
    left = list(units or ())
    for _ in range(_ATTEMPTS):
        kept = search.spare(left)
        if kept is None:
            return None
        over = _over(kept.units, search.budgets)
        if not over:
            return kept
        left = [unit for unit in left if unit not in over]
    return None


def _among_few(search: _UnitSearch[T], units: Sequence[_LeavingUnit]) -> _Spared | None:
    """The sparing set among the pods of as few nodes as have one."""
    for nodes in widening(search.part, _pods(units), _node_price):
        here = [unit for unit in units if any(pod.node in nodes for pod in unit.pods)]
        if (found := _kept_within(search, here)) is not None:
            return found
    return None


def _node_price(pods: Sequence[Running]) -> tuple[int, int]:
    """Nodes with few pods of low priority come first. Without any, a node has no victims."""
    return max((pod.pod.priority for pod in pods), default=2**31), len(pods)


def _member_by_member(
    search: _UnitSearch[T], units: Sequence[_LeavingUnit], proposals: Proposals[T]
) -> list[_LeavingUnit] | None:
    """Victims for one member after the other, each with the earlier members placed and their victims gone."""
    cluster, mark = search.cluster, search.cluster.mark()
    unit_of = {pod.uid: unit for unit in units for pod in unit.pods}
    left: dict[str, list[Running]] = {}
    for pod in _pods(units):
        if pod.node in search.part:
            left.setdefault(pod.node, []).append(pod)
    offers: dict[Hashable, _Offers[T]] = {}
    chosen: list[_LeavingUnit] = []
    for member in search.gang.joining:
        changed: list[str] = []
        if (place := cluster.best(member.ask, search.part)) is not None:
            cluster.put(member.ask, place.node)
            changed.append(place.node)
        else:
            kind, count = kind_of(member), len(search.gang.joining)
            if kind not in offers:
                offers[kind] = _Offers(member.ask, search.budgets, proposals, left, count)
            for node, pods in offers[kind]:
                more = list(dict.fromkeys(unit_of[pod.uid] for pod in pods))
                before = cluster.mark()
                remove_all(cluster, _pods(more))
                if cluster.best(member.ask, (node,)) is not None:
                    cluster.put(member.ask, node)
                    chosen += more
                    break
                cluster.rollback(before)
            else:
                cluster.rollback(mark)
                return None
            for pod in _pods(more):
                if pod.node in left:
                    left[pod.node].remove(pod)
            changed += [node, *(pod.node for pod in _pods(more))]
        for offer in offers.values():
            offer.changed.update(changed)
    cluster.rollback(mark)
    return chosen


class _Offers(Generic[T]):
    """The cheapest victims on each node for members that ask the same. Only nodes that have changed since are
    searched again for the next one."""

    def __init__(
        self,
        ask: T,
        budgets: Sequence[Budget],
        proposals: Proposals[T],
        left: Mapping[str, Sequence[Running]],
        count: int,
    ) -> None:
        self._ask, self._budgets, self._proposals, self._left = ask, budgets, proposals, left
        self._found: dict[str, tuple[Cost, list[Running]]] = {}
        self._search([pod for pods in left.values() for pod in pods], count)
        self.changed: set[str] = set()

    def __iter__(self) -> Iterator[tuple[str, list[Running]]]:
        """The cheapest first."""
        for node in self.changed:
            self._found.pop(node, None)
            self._search(self._left.get(node, ()), 1)
        self.changed.clear()
        while self._found:
            node = min(self._found, key=lambda node: (self._found[node][0], node))
            yield node, self._found.pop(node)[1]

    def _search(self, pods: Sequence[Running], count: int) -> None:
        by_uid = {pod.uid: pod for pod in pods}
        for node, uids in islice(self._proposals(self._ask, pods, self._budgets), count):
            victims = [by_uid[uid] for uid in uids if uid in by_uid]
            self._found[node] = _price(victims, self._budgets), victims


def _own(search: _UnitSearch[T]) -> Proposals[T]:
    """Proposals from trials on each node: all pods leave, and the most important that need not go stay."""

    def proposals(
        ask: T, running: Sequence[Running], budgets: Sequence[Budget]
    ) -> list[tuple[str, Sequence[str]]]:
        nodes: dict[str, list[Running]] = {}
        for pod in running:
            nodes.setdefault(pod.node, []).append(pod)
        found: list[tuple[Cost, str, list[str]]] = []
        cluster = search.cluster
        for node, pods in nodes.items():

            def fits(gone: Sequence[Running], node: str = node) -> bool:
                mark = cluster.mark()
                remove_all(cluster, gone)
                place = cluster.best(ask, (node,))
                cluster.rollback(mark)
                return place is not None

            kept = _by_importance(pods)
            if not fits(kept):
                continue
            for pod in tuple(kept):
                rest = [each for each in kept if each is not pod]
                if fits(rest):
                    kept = rest
            found.append((_price(kept, budgets), node, [pod.uid for pod in kept]))
        return [(node, uids) for _, node, uids in sorted(found)]

    return proposals


def _over(units: Sequence[_LeavingUnit], budgets: Sequence[Budget]) -> list[_LeavingUnit]:
    """The units that exceed a budget when all leave, the least important first."""
    left = [budget.allowed for budget in budgets]
    over = []
    for unit in sorted(units, key=_importance, reverse=True):
        takes = Counter(i for pod in unit.pods for i, budget in enumerate(budgets) if _takes(budget, pod))
        if any(left[i] < count for i, count in takes.items()):
            over.append(unit)
            continue
        for i, count in takes.items():
            left[i] -= count
    return over


def _takes(budget: Budget, pod: Running) -> bool:
    return budget.covers(pod.pod) and pod.pod.name not in budget.disrupted


def _price(pods: Sequence[Running], budgets: Sequence[Budget]) -> Cost:
    ordered = _by_importance(pods)
    return Pricing([pod.pod for pod in ordered], budgets).cost(tuple(range(len(ordered))))


def _by_importance(pods: Sequence[Running]) -> list[Running]:
    by_uid = {pod.uid: pod for pod in pods}
    return [by_uid[pod.uid] for pod in most_important_first(pod.pod for pod in pods)]


def _importance(unit: _LeavingUnit) -> tuple[int, int, float, str]:
    """The most important first: by priority, then large units, then the longest running."""
    started = [pod.pod.started_at for pod in unit.pods if pod.pod.started_at is not None]
    return -unit.priority, -len(unit.pods), min(started, default=float("inf")), unit.pods[0].uid


def _pods(units: Iterable[_LeavingUnit]) -> list[Running]:
    return [pod for unit in units for pod in unit.pods]
