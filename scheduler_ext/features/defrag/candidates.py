"""The candidates of a search for moves, the cheapest first: nodes, and sets of pods on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from scheduler_ext.core.preemption.dry_run import Gone
from scheduler_ext.features.defrag.leaving_sets import LeavingSets, Price
from scheduler_ext.features.defrag.movable import MovablePod


class PodSet(NamedTuple):
    """A set of pods that leaves a node. Room may be made for one of them elsewhere, by room made elsewhere,
    to the depth of `more`."""

    node: str
    pods: tuple[MovablePod, ...]
    more: int


class PodSets(NamedTuple):
    """Sets of pods of a node that may suffice: the cheapest, and the others in their order."""

    node: str
    sets: LeavingSets
    first: Gone
    others: Iterator[tuple[Price, Gone]]
    more: int

    def following(self) -> tuple[Price, PodSets] | None:
        """The next set, with the others after it; None without any."""
        following = next(self.others, None)
        if following is None:
            return None
        return dearer(following[0], self.more), self._replace(first=following[1])


class Bounded(NamedTuple):
    """A node with the least number of moves and their priority, but not yet the value at risk: that takes
    longer to compute, and few nodes come near the head of the queue."""

    node: str
    pods: Sequence[MovablePod]

    def least_value(self) -> float:
        """The value at risk of the pod that is the cheapest to move."""
        lowest = min(pod.bound.priority for pod in self.pods)
        return min(pod.value_at_risk for pod in self.pods if pod.bound.priority == lowest)


class CandidateQueue:
    """Nodes and sets of pods, the cheapest first; equal ones in the order in which they came."""

    def __init__(self, nodes: Iterable[tuple[Price, Bounded]]) -> None:
        self._order = count()
        self._heap: list[tuple[Price, int, Bounded | str | PodSet | PodSets]] = []
        for price, node in nodes:
            heappush(self._heap, (price, next(self._order), node))

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def least_moves(self) -> float:
        return self._heap[0][0][1]

    def push(self, priced: tuple[Price, PodSet | PodSets] | None) -> None:
        if priced is not None:
            heappush(self._heap, (priced[0], next(self._order), priced[1]))

    def pop(self) -> tuple[Price, str | PodSet | PodSets]:
        """The cheapest set, or the name of a node that may have a cheaper one."""
        while True:
            price, order, entry = heappop(self._heap)
            if not isinstance(entry, Bounded):
                return price, entry
            heappush(self._heap, ((*price[:-1], entry.least_value()), order, entry.node))


def dearer(price: Price, moves: int) -> Price:
    """The price of this many moves more."""
    return price[0], price[1] + moves, *price[2:]
