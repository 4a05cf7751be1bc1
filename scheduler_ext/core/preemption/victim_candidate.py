"""A node from which pods are to leave: which of them are known to suffice, and how they are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.preemption.disruption import most_important_first
from scheduler_ext.core.preemption.victim_choice import Choice
from scheduler_ext.core.preemption.victim_search import NO_PRIORITY, Cost


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that are to leave a node: uids, the most important first, never none; and how many of them
    violate a budget."""

    uids: tuple[str, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class Proposed:
    """kube-scheduler's proposal for a node: uids ``named``, of them ``unknown`` here, and the violations it
    ``counted``; the node's pods by uid, those that are leaving anyway, and all uids in their order."""

    named: Sequence[str]
    unknown: Sequence[str]
    counted: int
    known: Mapping[str, BoundPod]
    leaving: Sequence[BoundPod]
    uids: Sequence[str]


class Case:
    """The choice on one node and its answer. ``waiting`` is the choice among the pods that leave anyway."""

    def __init__(self, choice: Choice, proposed: Proposed, waiting: Callable[[], Choice]) -> None:
        self._choice = choice
        self._proposal = proposed
        self._waiting = waiting
        self._proposed = tuple(i for i, pod in enumerate(choice.pods) if pod.uid in set(proposed.named))
        self._gone = choice.at_once(self._proposed)
        self._searched = False
        # An empty tuple until the victims are named.
        self._victims: tuple[list[int], int] | tuple[()] | None = ()

    @property
    def cost(self) -> Cost | None:
        """The cost of the pods that are known to suffice."""
        return None if self._gone is None else self._choice.pricing.cost(self._gone)

    def search(self) -> None:
        """Look for cheaper ones, once."""
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
        stay = [pod for pod in proposal.leaving if pod.uid in set(proposal.named)]
        evicted = [choice.pods[i] for i in self._gone]
        if not (evicted or stay or proposal.unknown):
            # Where no victim would be left to name, the pods that the preemptor waits for.
            awaited = self._waiting().reprieved(tuple(range(len(proposal.leaving))))
            stay = [proposal.leaving[i] for i in awaited or ()]
            if not stay:
                return None
        over = choice.pricing.over
        unseen = max(0, proposal.counted - sum(over(self._proposed))) if proposal.unknown else 0
        uids = _in_order(most_important_first([*evicted, *stay]), proposal)
        return [proposal.uids.index(uid) for uid in uids], sum(over(self._gone)) + unseen


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node from which a few pods may leave, and which of them are known to suffice.

    Nodes that are alike share a case; ``uids`` are this node's pods, in their order.
    """

    case: Case
    uids: Sequence[str]

    @property
    def cost(self) -> Cost | None:
        """Their cost; None while no pods are known to suffice."""
        return self.case.cost

    @property
    def victims(self) -> Victims | None:
        """The pods as they are to be named."""
        found = self.case.victims()
        return None if found is None else Victims(tuple(self.uids[i] for i in found[0]), found[1])

    def search(self) -> None:
        """Look for cheaper ones, once."""
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
