"""A node from which pods are to leave: a set that suffices, a search for a cheaper one, and its names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge

from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.preemption.disruption import most_important_first
from scheduler_ext.core.preemption.dry_run import DryRun, Gone
from scheduler_ext.core.preemption.victim_search import (
    NO_PRIORITY,
    Cost,
    Need,
    Pricing,
    cheapest_first,
    focuses,
)

# Sets begun per evaluated set: beginning one costs a tenth of an evaluation.
_STEPS_PER_EVALUATION = 12
# How many sets are evaluated together, at first and at most.
_TOGETHER = (1, 16)


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that are to leave a node: uids, the most important first; how many violate a budget."""

    uids: tuple[str, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class Proposed:
    """kube-scheduler's proposal for a node: uids `named`, of them `unknown` here, and the violations it
    `counted`; the node's pods by uid, and all uids in their order."""

    named: Sequence[str]
    unknown: Sequence[str]
    counted: int
    known: Mapping[str, BoundPod]
    uids: Sequence[str]


class Choice:
    """One node with the pods that may leave it, and what they must free."""

    def __init__(self, dry_run: DryRun, needs: Sequence[Need], pricing: Pricing, evaluations: int) -> None:
        self.pods = dry_run.pods
        self.pricing = pricing
        self._dry_run = dry_run
        self._needs = needs
        self._evaluations = evaluations
        self._every = tuple(range(len(dry_run.pods)))
        self._reprieved: dict[Gone, Gone | None] = {}

    def suffices(self, gone: Gone) -> bool:
        return self._any_suffices([gone])

    def _any_suffices(self, sets: Sequence[Gone]) -> bool:
        enough = [gone for gone in sets if all(need.met_by(gone) for need in self._needs)]
        return self._dry_run.first_fit(enough) is not None

    def at_once(self, proposed: Gone) -> Gone | None:
        """The pods that remain of those proposed, or of all, when every pod that can be spared is."""
        kept = self.reprieved(proposed) if proposed else None
        return self.reprieved(self._every) if kept is None else kept

    def cheapest(self, known: Gone | None, *, keep: bool) -> Gone | None:
        """The cheapest set found: `known` unless a set is cheaper, or as cheap without `keep`."""
        steps = [self._evaluations * _STEPS_PER_EVALUATION]
        below = None if known is None else self.pricing.cost(known)
        if below is not None and not keep:
            below = below._replace(age=float("inf"))
        found = self._search(below, steps)
        if steps[0] >= 0:
            return known if found is None else found
        # The found set may not be the cheapest, and pods may be spared from it.
        sets = [known, None if found is None else self.reprieved(found), self.reprieved(self._every)]
        return min((gone for gone in sets if gone is not None), key=self.pricing.cost, default=None)

    def reprieved(self, gone: Gone) -> Gone | None:
        """The pods that remain when one after the other is spared, as kube-scheduler does: first pods that
        violate a budget, then the most important; None if these pods do not suffice."""
        if gone not in self._reprieved:
            self._reprieved[gone] = self._reprieve(gone) if self.suffices(gone) else None
        return self._reprieved[gone]

    def _reprieve(self, gone: Gone) -> Gone:
        over = self.pricing.over(gone)
        order = tuple(i for _, i in sorted(zip((not each for each in over), gone, strict=True)))
        fewer = self._spared(gone, order)
        # Again: if departures may free too much, a pod may be spared once another one stays.
        while self._any_suffices([tuple(i for i in fewer if i != spared) for spared in fewer]):
            for i in order:
                fewer = self._spared(fewer, (i,))
        return fewer

    def _spared(self, gone: Gone, order: Gone) -> Gone:
        """What remains when those are spared in that order. Many can be, so all are tried together first."""
        fewer = tuple(i for i in gone if i not in order)
        if len(fewer) == len(gone) or self.suffices(fewer):
            return fewer
        if len(order) == 1:
            return gone
        half = len(order) // 2
        return self._spared(self._spared(gone, order[:half]), order[half:])

    def _search(self, below: Cost | None, steps: list[int]) -> Gone | None:
        dry_run = self._dry_run
        sets = merge(
            *(
                cheapest_first(kinds, [*needs, *self._needs], self.pricing, below, steps)
                for kinds, needs in focuses(dry_run, self.pricing, self._needs)
            )
        )
        together, most = _TOGETHER
        batch: list[Gone] = []
        looked_at = dry_run.evaluations
        for _, gone in sets:
            batch.append(gone)
            if len(batch) < together:
                continue
            if (found := dry_run.first_fit(batch)) is not None:
                return found
            batch, together = [], min(most, 2 * together)
            if dry_run.evaluations - looked_at >= self._evaluations:
                steps[0] = -1
                return None
        return dry_run.first_fit(batch)


class Case:
    """The choice on one node and its answer. `waiting` is the choice among the pods that leave."""

    def __init__(
        self, choice: Choice, proposed: Proposed, leaving: Sequence[BoundPod], waiting: Callable[[], Choice]
    ) -> None:
        self._choice = choice
        self._proposal = proposed
        self._leaving = leaving
        self._waiting = waiting
        self._proposed = tuple(i for i, pod in enumerate(choice.pods) if pod.uid in set(proposed.named))
        self._gone = choice.at_once(self._proposed)
        self._searched = False
        # An empty tuple until the victims are named.
        self._victims: tuple[list[int], int] | tuple[()] | None = ()

    @property
    def cost(self) -> Cost | None:
        return None if self._gone is None else self._choice.pricing.cost(self._gone)

    def search(self) -> None:
        if not self._searched:
            self._searched, self._victims = True, ()
            keep = bool(self._proposed) and self._choice.suffices(self._proposed)
            self._gone = self._choice.cheapest(self._gone, keep=keep)

    def victims(self) -> tuple[list[int], int] | None:
        """The victims by the index of their uids, and how many violate a budget."""
        if self._victims == ():
            self._victims = self._named()
        return self._victims or None

    def _named(self) -> tuple[list[int], int] | None:
        if self._gone is None:
            return None
        choice, proposal = self._choice, self._proposal
        stay = [pod for pod in self._leaving if pod.uid in set(proposal.named)]
        evicted = [choice.pods[i] for i in self._gone]
        if not (evicted or stay or proposal.unknown):
            # Where no victim would be left to name, the pods that the preemptor waits for.
            awaited = self._waiting().reprieved(tuple(range(len(self._leaving))))
            stay = [self._leaving[i] for i in awaited or ()]
            if not stay:
                return None
        over = choice.pricing.over
        unseen = max(0, proposal.counted - sum(over(self._proposed))) if proposal.unknown else 0
        uids = _in_order(most_important_first([*evicted, *stay]), proposal)
        return [proposal.uids.index(uid) for uid in uids], sum(over(self._gone)) + unseen


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node from which a few pods may leave, and which of them are known to suffice. Nodes that are alike
    share a case; `uids` are this node's pods, in their order."""

    case: Case
    uids: Sequence[str]

    @property
    def cost(self) -> Cost | None:
        return self.case.cost

    @property
    def victims(self) -> Victims | None:
        found = self.case.victims()
        return None if found is None else Victims(tuple(self.uids[i] for i in found[0]), found[1])

    def search(self) -> None:
        self.case.search()


def _in_order(pods: Sequence[BoundPod], proposal: Proposed) -> list[str]:
    """The most important first, because kube-scheduler takes the first for that. An unknown pod is at least
    as important as those that kube-scheduler named after it."""
    rows = [(pod.priority, pod.uid) for pod in pods]
    named, known = proposal.named, proposal.known
    for uid in reversed(proposal.unknown):
        after = [known[each].priority for each in named[named.index(uid) :] if each in known]
        floor = max(after, default=NO_PRIORITY - 1)
        place = next((i for i, (priority, _) in enumerate(rows) if priority <= floor), len(rows))
        rows.insert(place, (floor, uid))
    return [uid for _, uid in rows]
