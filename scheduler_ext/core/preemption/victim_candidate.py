"""A node from which pods are to leave: who of them is known to suffice, and how that is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.preemption.disruption import most_important_first
from scheduler_ext.core.preemption.victim_choice import Choice
from scheduler_ext.core.preemption.victim_search import NO_PRIORITY, Cost


@dataclass(frozen=True, slots=True)
class Victims:
    """Who is to leave a node: uids, the most important first, never none; and how many violate a budget."""

    uids: tuple[str, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class Proposed:
    """What kube-scheduler proposes on a node: uids ``named``, of them ``unknown`` here, and the violations it
    ``counted``; the node's pods by uid, those that are leaving anyway, and all uids in their order."""

    named: Sequence[str]
    unknown: Sequence[str]
    counted: int
    known: Mapping[str, BoundPod]
    leaving: Sequence[BoundPod]
    uids: Sequence[str]


class Case:
    """The choice on one node, and how it is told. ``waiting`` is the choice among those who leave anyway."""

    def __init__(self, choice: Choice, proposed: Proposed, waiting: Callable[[], Choice]) -> None:
        self._choice = choice
        self._told = proposed
        self._waiting = waiting
        self._proposed = tuple(i for i, pod in enumerate(choice.pods) if pod.uid in set(proposed.named))
        self._gone = choice.at_once(self._proposed)
        self._searched = False
        self._victims: tuple[list[int], int] | None = None
        self._is_told = False

    @property
    def cost(self) -> Cost | None:
        """What those cost who are known to suffice."""
        return None if self._gone is None else self._choice.pricing.cost(self._gone)

    def search(self) -> None:
        """Look for cheaper ones, once."""
        if not self._searched:
            self._searched = True
            self._is_told = False
            keep = bool(self._proposed) and self._choice.suffices(self._proposed)
            self._gone = self._choice.cheapest(self._gone, keep=keep)

    def victims(self) -> tuple[list[int], int] | None:
        """The victims by the place of their uids, and how many violate a budget."""
        if not self._is_told:
            self._victims, self._is_told = self._tell(), True
        return self._victims

    def _tell(self) -> tuple[list[int], int] | None:
        if self._gone is None:
            return None
        choice, told = self._choice, self._told
        stay = [pod for pod in told.leaving if pod.uid in set(told.named)]
        evicted = [choice.pods[i] for i in self._gone]
        if not (evicted or stay or told.unknown):
            # Where none would be left to name, those that the pod waits for.
            awaited = self._waiting().reprieved(tuple(range(len(told.leaving))))
            stay = [told.leaving[i] for i in awaited or ()]
            if not stay:
                return None
        over = choice.pricing.over
        unseen = max(0, told.counted - sum(over(self._proposed))) if told.unknown else 0
        uids = _in_order(most_important_first([*evicted, *stay]), told.unknown, told.named, told.known)
        return [told.uids.index(uid) for uid in uids], sum(over(self._gone)) + unseen


class Candidate:
    """A node from which a few pods may leave, and who of them is known to suffice.

    Nodes that are alike share what is found; ``uids`` are this one's pods, in their order.
    """

    def __init__(self, case: Case, uids: Sequence[str]) -> None:
        self._case = case
        self._uids = uids

    @property
    def cost(self) -> Cost | None:
        """What those cost; None while nobody is known to suffice."""
        return self._case.cost

    @property
    def victims(self) -> Victims | None:
        """Those as they are to be named."""
        found = self._case.victims()
        return None if found is None else Victims(tuple(self._uids[i] for i in found[0]), found[1])

    def search(self) -> None:
        """Look for cheaper ones, once."""
        self._case.search()


def _in_order(
    pods: Sequence[BoundPod], unknown: Sequence[str], named: Sequence[str], known: Mapping[str, BoundPod]
) -> tuple[str, ...]:
    """The most important first, because kube-scheduler takes the first for that. An unknown pod is at least
    as important as those that kube-scheduler named after it."""
    rows = [(pod.priority, pod.uid) for pod in pods]
    for uid in reversed(unknown):
        after = [known[each].priority for each in named[named.index(uid) :] if each in known]
        floor = max(after, default=NO_PRIORITY - 1)
        place = next((i for i, (priority, _) in enumerate(rows) if priority <= floor), len(rows))
        rows.insert(place, (floor, uid))
    return tuple(uid for _, uid in rows)
