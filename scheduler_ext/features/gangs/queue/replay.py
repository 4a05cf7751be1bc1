"""One possible future of the queue: pods end in some order, others are created, and the waiting pods take the
room."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple, TypeAlias

from scheduler_ext.features.gangs.queue.room import Amounts, RunningPod, Waiter, fits, less, more

NEVER = float("inf")
# The nodes with some room on which a pod that is created is tried, so that a large cluster costs no more.
_TRIED = 16


class Basis(IntEnum):
    """What a time follows from: past runs; only the limit that a pod states; or a guess, because the pod
    outlasts all comparable runs."""

    RUNS = 0
    STATED = 1
    GUESS = 2


class Moment(NamedTuple):
    """A time in seconds from now."""

    at_s: float
    basis: Basis = Basis.RUNS


class Arrival(NamedTuple):
    """A pod that is created in `at_s` seconds, and runs for `runs`."""

    at_s: float
    waiter: Waiter
    runs: Moment


@dataclass(eq=False, slots=True)
class _Line:
    """Waiting pods of one priority that ask the same on the same nodes, all or none of them refused now: only
    the first of them can be next. `index` is its number among all lines; the lowest `rank` has the highest
    priority."""

    index: int
    rank: int
    ask: Amounts
    within: frozenset[str]
    refused: bool
    positions: list[int] = field(default_factory=list)


_Key: TypeAlias = tuple[int, Amounts, frozenset[str], bool]


class _Startable(NamedTuple):
    """A waiting pod, or gang, that can start now: the first of a line, or a gang with its places."""

    rank: int
    position: int
    line: _Line | None
    places: tuple[str, ...]


class Queue:
    """The waiting pods in their order on a cluster. A pod does not wait for those before it that fit
    nowhere, as in kube-scheduler; what is kept for one is the exception."""

    def __init__(
        self,
        free: Mapping[str, Amounts],
        holders: Sequence[RunningPod],
        waiters: Sequence[Waiter],
        coming: Sequence[Waiter] = (),
    ) -> None:
        """`coming` are the pods that may arrive."""
        self.waiters = waiters
        self.free = dict(free)
        self.lines: dict[_Key, _Line] = {}
        # By node: the lines and the gangs that may start there, those that ask least of the first kind of
        # amount first, and those that room is kept for.
        self.lines_of: dict[str, list[_Line]] = {}
        self.gangs_of: dict[str, list[int]] = {}
        self.keepers_of: dict[str, list[int]] = {}
        for position, waiter in enumerate(waiters):
            self._line_up(position, waiter)
        for waiter in coming:
            self.line(waiter)
        for lines in self.lines_of.values():
            lines.sort(key=lambda line: line.ask)
        self.nodes = sorted(self.lines_of.keys() | self.gangs_of.keys())
        known = frozenset(self.nodes)
        self.holders = [holder for holder in holders if holder.node in known]

    def _line_up(self, position: int, waiter: Waiter) -> None:
        if waiter.places:
            for node, ask in zip(waiter.places, waiter.asks, strict=True):
                self.free[node] = less(self.free[node], ask)
            return
        for node in waiter.kept:
            self.keepers_of.setdefault(node, []).append(position)
        if len(waiter.asks) > 1:
            for node in waiter.within:
                self.gangs_of.setdefault(node, []).append(position)
            return
        self.line(waiter).positions.append(position)

    def line(self, waiter: Waiter) -> _Line:
        """The line of a pod alone."""
        key = waiter.priority, waiter.asks[0], waiter.within, waiter.refused
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = _Line(len(self.lines), -waiter.priority, *key[1:])
            for node in waiter.within:
                self.lines_of.setdefault(node, []).append(line)
        return line

    def starts(
        self, ends: Sequence[Moment], runs: Sequence[Moment], arrivals: Sequence[Arrival] = ()
    ) -> list[Moment]:
        """When each waiting pod starts, if `holders` end at `ends`, each waiting pod so long after its start
        as `runs` says, and further pods arrive."""
        return _Future(self, ends, runs, arrivals).starts()


class _Future:
    """The replay of one order of events."""

    def __init__(
        self, queue: Queue, ends: Sequence[Moment], runs: Sequence[Moment], arrivals: Sequence[Arrival]
    ) -> None:
        self._queue = queue
        self._runs = runs
        self._arrivals = arrivals
        self._free = dict(queue.free)
        # Nodes that a pod has left.
        self._eased: set[str] = set()
        # Those that wait; a pod that arrives has the number of its arrival after all others.
        self._lines = [deque(line.positions) for line in queue.lines.values()]
        self._starts = [Moment(NEVER)] * len(queue.waiters)
        self._left = len(queue.waiters)
        self._roomy = dict.fromkeys(node for node in queue.nodes if any(self._free[node]))
        self._events: list[tuple[float, str, Amounts, Basis]] = [
            (end.at_s, holder.node, holder.amounts, end.basis)
            for end, holder in zip(ends, queue.holders, strict=True)
            if end.at_s < NEVER
        ]
        heapify(self._events)

    def starts(self) -> list[Moment]:
        now = Moment(0.0)
        for position, waiter in enumerate(self._queue.waiters):
            if waiter.places:
                self._note(position, waiter.places, now)
        for node in self._queue.nodes:
            self._fill(node, now)
        coming = iter(enumerate(self._arrivals, len(self._queue.waiters)))
        position, arrival = next(coming, (0, None))
        while self._left and (self._events or arrival is not None):
            if arrival is not None and (not self._events or arrival.at_s < self._events[0][0]):
                self._arrive(position, arrival)
                position, arrival = next(coming, (0, None))
                continue
            at_s, node, amounts, basis = heappop(self._events)
            self._set_free(node, more(self._free[node], amounts))
            self._eased.add(node)
            self._fill(node, Moment(at_s, basis))
        return self._starts

    def _arrive(self, position: int, arrival: Arrival) -> None:
        line = self._queue.line(arrival.waiter)
        waiting = self._lines[line.index]
        waiting.append(position)
        if len(waiting) > 1:
            return
        roomy = islice((node for node in self._roomy if node in line.within), _TRIED)
        takers = [node for node in roomy if fits(self._free[node], line.ask)]
        if takers:
            self._fill(min(takers, key=self._free.__getitem__), Moment(arrival.at_s))

    def _fill(self, node: str, at: Moment) -> None:
        """Start the pods that the node has room for, the first of the queue first."""
        while found := min(self._candidates(node), default=None):
            if found.line is not None:
                self._lines[found.line.index].popleft()
            self._take(found, at)

    def _candidates(self, node: str) -> Iterator[_Startable]:
        free = self._free[node]
        for line in self._queue.lines_of.get(node, ()):
            if line.ask[0] > free[0]:
                break
            if line.refused and node not in self._eased:
                continue
            waiting = self._lines[line.index]
            if waiting and fits(free, line.ask) and not self._is_kept(node, waiting[0]):
                yield _Startable(line.rank, waiting[0], line, (node,))
        for position in self._queue.gangs_of.get(node, ()):
            if self._starts[position].at_s == NEVER and (places := self._together(position, node)):
                yield _Startable(-self._queue.waiters[position].priority, position, None, places)

    def _is_kept(self, node: str, position: int) -> bool:
        """Whether the room of a node is kept for a pod before this one."""
        keepers = self._queue.keepers_of.get(node, ())
        return any(each < position and self._starts[each].at_s == NEVER for each in keepers)

    def _together(self, position: int, changed: str) -> tuple[str, ...]:
        """Nodes for all pods of a gang; empty if it does not fit whole. Only one node has `changed`."""
        waiter = self._queue.waiters[position]
        if waiter.refused and changed not in self._eased:
            return ()
        if not any(fits(self._free[changed], ask) for ask in waiter.asks):
            return ()
        asks, places = list(waiter.asks), []
        for node in sorted(waiter.within):
            free = self._free[node]
            while asks and fits(free, asks[-1]) and not self._is_kept(node, position):
                free = less(free, asks.pop())
                places.append(node)
            if not asks:
                return tuple(reversed(places))
        return ()

    def _take(self, found: _Startable, at: Moment) -> None:
        waiter, _ = self._about(found.position)
        for node, ask in zip(found.places, waiter.asks, strict=True):
            self._set_free(node, less(self._free[node], ask))
        self._note(found.position, found.places, at)

    def _note(self, position: int, places: Sequence[str], at: Moment) -> None:
        """The pod starts; it ends later."""
        waiter, runs = self._about(position)
        if position < len(self._starts):
            self._starts[position] = at
            self._left -= 1
        if runs.at_s < NEVER:
            # A guess counts against the pod that waited for it; behind it, the queue moves in any case.
            basis = runs.basis if at.basis is Basis.GUESS else max(at.basis, runs.basis)
            for node, ask in zip(places, waiter.asks, strict=True):
                heappush(self._events, (at.at_s + runs.at_s, node, ask, basis))

    def _about(self, position: int) -> tuple[Waiter, Moment]:
        waiters = self._queue.waiters
        if position < len(waiters):
            return waiters[position], self._runs[position]
        arrival = self._arrivals[position - len(waiters)]
        return arrival.waiter, arrival.runs

    def _set_free(self, node: str, free: Amounts) -> None:
        self._free[node] = free
        if any(free):
            self._roomy[node] = None
        else:
            self._roomy.pop(node, None)
