"""One possible future of the queue: pods end in some order, and the waiting pods take their room."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from scheduler_ext.core.queue.room import Amounts, Holder, Waiter, fits, less, more

NEVER = float("inf")


class Moment(NamedTuple):
    """A time in seconds from now; `stated` if it is the latest one by what a pod states, and nothing else is
    known."""

    at_s: float
    stated: bool = False


@dataclass(eq=False)
class _Line:
    """Waiting pods that ask the same on the same nodes: only the first of them can be the next."""

    ask: Amounts
    positions: list[int] = field(default_factory=list)


class Queue:
    """The waiting pods in their order on a cluster. A pod does not wait for those before it that fit
    nowhere, as in kube-scheduler; what is kept for one is the exception."""

    def __init__(
        self, free: Mapping[str, Amounts], holders: Sequence[Holder], waiters: Sequence[Waiter]
    ) -> None:
        self.waiters = waiters
        self.free = dict(free)
        # By node: the lines and the gangs that may start there, and those that room is kept for.
        self.lines: dict[str, list[_Line]] = {}
        self.gangs: dict[str, list[int]] = {}
        self.keepers: dict[str, list[int]] = {}
        self._line_up()
        self.holders = [holder for holder in holders if holder.node in self.lines or holder.node in self.gangs]

    def _line_up(self) -> None:
        lines: dict[tuple[Amounts, frozenset[str]], _Line] = {}
        for position, waiter in enumerate(self.waiters):
            if waiter.places:
                for node, ask in zip(waiter.places, waiter.asks, strict=True):
                    self.free[node] = less(self.free[node], ask)
                continue
            for node in waiter.kept:
                self.keepers.setdefault(node, []).append(position)
            if len(waiter.asks) > 1:
                for node in waiter.within:
                    self.gangs.setdefault(node, []).append(position)
                continue
            key = waiter.asks[0], waiter.within
            if key not in lines:
                lines[key] = _Line(waiter.asks[0])
                for node in waiter.within:
                    self.lines.setdefault(node, []).append(lines[key])
            lines[key].positions.append(position)

    def starts(self, ends: Sequence[Moment], runs: Sequence[Moment]) -> list[Moment]:
        """When each waiting pod starts, if `holders` end at `ends`, and each waiting pod so long after its
        start as `runs` says."""
        return _Future(self, ends, runs).starts()


class _Future:
    """The replay of one order of events."""

    def __init__(self, queue: Queue, ends: Sequence[Moment], runs: Sequence[Moment]) -> None:
        self._queue = queue
        self._runs = runs
        self._free = dict(queue.free)
        # How many pods of each line have started.
        self._started: dict[_Line, int] = {}
        self._starts = [Moment(NEVER)] * len(queue.waiters)
        self._left = len(queue.waiters)
        self._events = [
            (end.at_s, holder.node, holder.amounts, end.stated)
            for end, holder in zip(ends, queue.holders, strict=True)
            if end.at_s < NEVER
        ]
        heapify(self._events)

    def starts(self) -> list[Moment]:
        now = Moment(0.0)
        for position, waiter in enumerate(self._queue.waiters):
            if waiter.places:
                self._note(position, waiter.places, now)
        for node in sorted(self._queue.lines.keys() | self._queue.gangs.keys()):
            self._fill(node, now)
        while self._events and self._left:
            at_s, node, amounts, stated = heappop(self._events)
            self._free[node] = more(self._free[node], amounts)
            self._fill(node, Moment(at_s, stated))
        return self._starts

    def _fill(self, node: str, at: Moment) -> None:
        """Start the pods that the node has room for, the first of the queue first."""
        while found := min(self._candidates(node), default=None):
            position, line, places = found
            if line is None:
                self._take(position, places, at)
            else:
                self._started[line] = self._started.get(line, 0) + 1
                self._take(position, (node,), at)

    def _candidates(self, node: str) -> Iterator["_Candidate"]:
        free = self._free[node]
        for line in self._queue.lines.get(node, ()):
            done = self._started.get(line, 0)
            if done < len(line.positions) and fits(free, line.ask):
                position = line.positions[done]
                if not self._is_kept(node, position):
                    yield _Candidate(position, line)
        for position in self._queue.gangs.get(node, ()):
            if self._starts[position].at_s == NEVER and (places := self._together(position, node)):
                yield _Candidate(position, None, places)

    def _is_kept(self, node: str, position: int) -> bool:
        """Whether the room of a node is kept for a pod before this one."""
        keepers = self._queue.keepers.get(node, ())
        return any(each < position and self._starts[each].at_s == NEVER for each in keepers)

    def _together(self, position: int, changed: str) -> tuple[str, ...]:
        """Nodes for all pods of a gang; empty if it does not fit whole. Only one node has `changed`."""
        waiter = self._queue.waiters[position]
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

    def _take(self, position: int, places: Sequence[str], at: Moment) -> None:
        for node, ask in zip(places, self._queue.waiters[position].asks, strict=True):
            self._free[node] = less(self._free[node], ask)
        self._note(position, places, at)

    def _note(self, position: int, places: Sequence[str], at: Moment) -> None:
        """The pod starts; it ends later."""
        self._starts[position] = at
        self._left -= 1
        runs = self._runs[position]
        if runs.at_s < NEVER:
            for node, ask in zip(places, self._queue.waiters[position].asks, strict=True):
                heappush(self._events, (at.at_s + runs.at_s, node, ask, at.stated or runs.stated))


class _Candidate(NamedTuple):
    """A waiting pod, or gang, that can start now: the first of a line, or a gang with its places."""

    position: int
    line: _Line | None
    places: tuple[str, ...] = ()
