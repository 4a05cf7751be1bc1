"""The pods that leave so that a whole gang fits: the cheapest that two searches find, none of them in vain.
One goes member by member and takes the cheapest victims of one node for each; the other lets all pods of
low priority leave. Both then spare every pod that no member needs, the most important first.
PodDisruptionBudgets are kept: a set that violates one is no answer."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from scheduler_ext.core.planning.draining import Draining, Running, Topology, remove_all
from scheduler_ext.core.planning.gang import Gang, GangKey
from scheduler_ext.core.planning.gang_fit import GangFit, fit
from scheduler_ext.core.planning.widening import widening
from scheduler_ext.core.preemption.disruption import Budget, most_important_first
from scheduler_ext.core.preemption.victim_search import Cost, Pricing

T = TypeVar("T")

# Sets over a budget that are tried again without the pods that exceed it.
_ATTEMPTS = 4

Proposals = Callable[[T, Sequence[Running], Sequence[Budget]], Iterable[tuple[str, Sequence[str]]]]
"""For a pod: nodes, each with the uids of the cheapest of these pods whose departure lets it in, the cheapest
first; the budgets are those that are left."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """The pods that leave, the least important first, and the places that the gang then has."""

    victims: tuple[Running, ...]
    fit: GangFit


@dataclass(frozen=True, slots=True, eq=False)
class _Unit:
    """Pods that leave together: the members of a gang, or one pod."""

    pods: tuple[Running, ...]

    @property
    def priority(self) -> int:
        return max(pod.pod.priority for pod in self.pods)


@dataclass(eq=False)
class _Search(Generic[T]):
    gang: Gang[T]
    cluster: Draining[T]
    topology: Topology
    part: frozenset[str]
    budgets: Sequence[Budget]
    # A bit of each pod that was removed in a trial, and the results of trials by the bits of their pods:
    # both searches try many sets, and the last steps of each try sets again.
    _bits: dict[str, int] = field(default_factory=dict)
    _tried: dict[int, GangFit | None] = field(default_factory=dict)

    def fits_without(self, gone: Sequence[Running]) -> GangFit | None:
        """The places of the gang once these have left, on the cluster as it is at the start of the search;
        the cluster is unchanged."""
        key = 0
        for pod in gone:
            key |= self._bits.setdefault(pod.uid, 1 << len(self._bits))
        if key not in self._tried:
            mark = self.cluster.mark()
            remove_all(self.cluster, gone)
            found = fit(self.gang, self.cluster, self.topology, self.part)
            self.cluster.rollback(mark)
            self._tried[key] = found if isinstance(found, GangFit) else None
        return self._tried[key]

    def spare(self, units: Sequence[_Unit]) -> list[_Unit]:
        """The units that remain when every one that need not leave is spared: first those that exceed a
        budget, then the most important. Large groups of them are spared at once."""
        over = _over(units, self.budgets)
        order = sorted(units, key=lambda unit: (unit not in over, *_importance(unit)))
        kept = list(units)

        def drop(some: Sequence[_Unit]) -> None:
            nonlocal kept
            rest = [unit for unit in kept if unit not in some]
            if self.fits_without(_pods(rest)) is not None:
                kept = rest
            elif len(some) > 1:
                half = len(some) // 2
                drop(some[:half])
                drop(some[half:])

        if order:
            drop(order)
        again = True
        while again:
            # Once one stays, the places differ, and another may be spared.
            again = False
            for unit in [unit for unit in order if unit in kept]:
                rest = [each for each in kept if each is not unit]
                if self.fits_without(_pods(rest)) is not None:
                    kept, again = rest, True
        return kept


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
    here = [pod for pod in running if pod.node in part]
    mark = cluster.mark()
    remove_all(cluster, (pod for pod in here if pod.leaving))
    search = _Search(gang, cluster, topology, part, budgets)
    units = evictable(gang.priority, running, budgets)
    found = [
        _among_few(search, units),
        _kept_within(search, _member_by_member(search, units, proposals or _own(search))),
    ]
    answers = [pods for pods in found if pods is not None]
    best = min(answers, key=lambda pods: _price(pods, budgets), default=None)
    answer = None
    if best and (places := search.fits_without(best)) is not None:
        answer = Eviction(tuple(reversed(_by_importance(best))), places)
    cluster.rollback(mark)
    return answer


def evictable(priority: int, running: Sequence[Running], budgets: Sequence[Budget] = ()) -> list[_Unit]:
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
            units.append(_Unit(tuple(staying)))
    return sorted(units, key=_importance, reverse=True)


def _kept_within(search: _Search[T], units: Sequence[_Unit] | None) -> list[Running] | None:
    """The pods of a sparing set that keeps all budgets; pods that exceed one stay in the next attempt."""
    left = list(units or ())
    for _ in range(_ATTEMPTS):
        if search.fits_without(_pods(left)) is None:
            return None
        kept = search.spare(left)
        over = _over(kept, search.budgets)
        if not over:
            return _pods(kept)
        left = [unit for unit in left if unit not in over]
    return None


def _among_few(search: _Search[T], units: Sequence[_Unit]) -> list[Running] | None:
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
    search: _Search[T], units: Sequence[_Unit], proposals: Proposals[T]
) -> list[_Unit] | None:
    """Victims for one member after the other, each with the earlier members placed and their victims gone."""
    cluster, mark = search.cluster, search.cluster.mark()
    by_uid = {pod.uid: unit for unit in units for pod in unit.pods}
    chosen: list[_Unit] = []
    for member in search.gang.joining:
        place = cluster.best(member.ask, search.part)
        if place is not None:
            cluster.put(member.ask, place.node)
            continue
        left = [pod for unit in units if unit not in chosen for pod in unit.pods if pod.node in search.part]
        for node, uids in proposals(member.ask, left, search.budgets):
            more = list(dict.fromkeys(by_uid[uid] for uid in uids if uid in by_uid))
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
    cluster.rollback(mark)
    # Places that were chosen one by one may ignore a required domain.
    return chosen if search.fits_without(_pods(chosen)) is not None else None


def _own(search: _Search[T]) -> Proposals[T]:
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


def _over(units: Sequence[_Unit], budgets: Sequence[Budget]) -> list[_Unit]:
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


def _importance(unit: _Unit) -> tuple[int, int, float, str]:
    """The most important first: by priority, then large units, then the longest running."""
    started = [pod.pod.started_at for pod in unit.pods if pod.pod.started_at is not None]
    return -unit.priority, -len(unit.pods), min(started, default=float("inf")), unit.pods[0].uid


def _pods(units: Iterable[_Unit]) -> list[Running]:
    return [pod for unit in units for pod in unit.pods]
