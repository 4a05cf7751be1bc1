"""The sets of pods that could make way for a request, the cheapest first.

Pods that would free the same, under the same budgets, are of one class, and the least important go first:
so not every set is looked at but every number of each class. What a set must free at least, whichever it is,
is a sum over its pods (a ``Need``), and sets that can never reach it are not begun.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.preemption.disruption import Budget, budgets_of, over_budget
from scheduler_ext.core.preemption.dry_run import Gone

NO_PRIORITY = -(2**31)


class Cost(NamedTuple):
    """The cost of evicting some pods; less is better, and one pod more is always worse.

    ``total_priority`` only counts values above zero, otherwise a pod more could make a set cheaper; for equal
    numbers of pods, ``sum_of_priorities`` has all values. kube-scheduler, which compares nodes in this order,
    adds 2**31 to each priority in its total, so that there fewer pods come before a lower sum. ``age`` is the
    earliest start of those of the highest priority, negated: the latest starter goes first.
    """

    violations: int
    highest_priority: int
    total_priority: int
    pods: int
    sum_of_priorities: int
    age: float


class Pricing:
    """What sets of these pods cost; the pods have the most important first."""

    def __init__(self, pods: Sequence[BoundPod], budgets: Sequence[Budget]) -> None:
        self._pods = pods
        self._allowed = [budget.allowed for budget in budgets]
        self.counted = budgets_of(pods, budgets)
        self._any_counted = any(self.counted)
        # If a pod has several budgets, the order of departures matters for the count.
        self.overlapping = any(len(places) > 1 for places in self.counted)

    def over(self, gone: Gone) -> list[bool]:
        """Which of these violate a budget when all of them go; in their order, the most important first."""
        return over_budget((self.counted[i] for i in gone), self._allowed)

    def cost(self, gone: Gone) -> Cost:
        """What it costs that these go, given the most important first."""
        if not gone:
            return Cost(0, NO_PRIORITY, 0, 0, 0, -float("inf"))
        first = self._pods[gone[0]]
        priorities = [self._pods[i].priority for i in gone]
        return Cost(
            violations=sum(self.over(gone)) if self._any_counted else 0,
            highest_priority=first.priority,
            total_priority=sum(priority for priority in priorities if priority > 0),
            pods=len(gone),
            sum_of_priorities=sum(priorities),
            age=-float("inf") if first.started_at is None else -first.started_at,
        )


@dataclass(frozen=True, slots=True)
class Need:
    """A need of the evicted pods together: at least ``much``, where the i-th frees ``gains[i]``."""

    much: int
    gains: Sequence[int]

    def met_by(self, gone: Gone) -> bool:
        """Whether these free enough of it."""
        return sum(self.gains[i] for i in gone) >= self.much


class Steps:
    """How many sets may still be begun, over several searches."""

    def __init__(self, left: int) -> None:
        self.left = left

    @property
    def exhausted(self) -> bool:
        """Whether a search ended because of it."""
        return self.left < 0


@dataclass(frozen=True, slots=True)
class _Class:
    """Pods of one kind, the last to be spared first; what each frees, and what all of this class and of those
    after it do."""

    pods: Gone
    gains: tuple[int, ...]
    rest: tuple[int, ...]


def cheapest_first(
    kinds: Sequence[tuple[Hashable, int]],
    needs: Sequence[Need],
    pricing: Pricing,
    below: Cost | None,
    steps: Steps,
) -> Iterator[tuple[Cost, Gone]]:
    """Every number of every class that meets all needs, in the order of cost, while that is ``below``.

    ``kinds`` are (class, pod) in the order in which classes are filled. Ends early when the steps do.
    """
    classes = _classes(kinds, needs)
    much = tuple(need.much for need in needs)
    order = count()
    begun: list[tuple[Cost, int, Gone, int, int, tuple[int, ...]]] = []
    nothing = (0,) * len(needs)
    heappush(begun, (pricing.cost(()), next(order), (), 0, 0, nothing))
    while begun:
        cost, _, gone, at, taken, have = heappop(begun)
        if all(map(int.__ge__, have, much)):
            yield cost, gone
        for j in range(at, len(classes)):
            one = classes[j]
            used = taken if j == at else 0
            if not _reaches(have, one, used, much):
                # Nor does what begins with a later class, which has less to add.
                break
            if used == len(one.pods):
                continue
            steps.left -= 1
            if steps.exhausted:
                return
            more = tuple(sorted((*gone, one.pods[used])))
            price = pricing.cost(more)
            if below is None or price < below:
                got = tuple(map(int.__add__, have, one.gains))
                heappush(begun, (price, next(order), more, j, used + 1, got))


def _reaches(have: tuple[int, ...], one: _Class, used: int, much: tuple[int, ...]) -> bool:
    """Whether this amount can still become enough with this class, partly used already, and those after
    it.
    """
    return all(
        had + rest - used * gain >= need
        for had, rest, gain, need in zip(have, one.rest, one.gains, much, strict=True)
    )


def _classes(kinds: Sequence[tuple[Hashable, int]], needs: Sequence[Need]) -> list[_Class]:
    members: dict[tuple[Hashable, tuple[int, ...]], list[int]] = {}
    for kind, pod in kinds:
        gains = tuple(need.gains[pod] for need in needs)
        members.setdefault((kind, gains), []).append(pod)
    rest = (0,) * len(needs)
    classes: list[_Class] = []
    for (_, gains), pods in reversed(members.items()):
        rest = tuple(left + gain * len(pods) for left, gain in zip(rest, gains, strict=True))
        # The most important have the lowest places, and are spared longest.
        classes.append(_Class(tuple(sorted(pods, reverse=True)), gains, rest))
    return classes[::-1]
