"""The fewest moves that let a pod in. Candidates are sets of pods on one node, by the number of moves that
they need at least: a set whose pods all find another place is a plan. A pod that finds none may itself have
room made for it elsewhere first, which counts as a set with more moves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.defrag.leaving_sets import LeavingSets, Price, least_moves
from scheduler_ext.defrag.movable import MovablePod
from scheduler_ext.defrag.moving_cluster import MovingCluster
from scheduler_ext.whatif.whatif import Asker


@dataclass(frozen=True, slots=True)
class Hold:
    """Room on a node that is held for a pod while others move."""

    node: str
    asker: Asker


@dataclass(frozen=True, slots=True)
class Move:
    """One pod's move: evicted from its node, and created again on node `to` with these devices, while room
    is held as in `holds`."""

    pod: MovablePod
    to: str
    devices: Sequence[dict[str, Any]]
    holds: Sequence[Hold]


@dataclass(frozen=True, slots=True)
class Room:
    """The node where a pod fits after these moves, in their order."""

    node: str
    moves: Sequence[Move]


@dataclass(frozen=True, slots=True)
class Effort:
    """Bounds of a search: how deep room is made for pods that move, how many sets are tried, and how many of
    them by making room first. A search within these bounds is exact."""

    depth: int = 2
    tries: int = 300
    chains: int = 60
    most_moves: int = 12


class _Set(NamedTuple):
    """A set of pods that leaves a node; `chains` is how many moves more may make room for them."""

    node: str
    pods: tuple[MovablePod, ...]
    more: int


@dataclass(frozen=True, slots=True)
class Stuck:
    """The cheapest set that did not lead to a plan: its pods leave `node`, and `pod` finds no other place;
    None if all do and the node still refuses the pod."""

    node: str
    pods: Sequence[MovablePod]
    pod: MovablePod | None


@dataclass(eq=False)
class Search:
    """Looks for room for one pod. `pods` may move, `budgets` are what they may still be disrupted, by index.
    `exhausted` says whether the bounds ended a search, and `nearest` why the cheapest set failed."""

    cluster: MovingCluster
    pods: Sequence[MovablePod]
    budgets: list[Budget]
    effort: Effort = field(default_factory=Effort)
    exhausted: bool = False
    nearest: Stuck | None = None
    # The rooms held now, and the pods that moved already.
    _holds: list[Hold] = field(default_factory=list)
    _moved: set[str] = field(default_factory=set)
    # The bound of each node for each pod, with the node that it was computed for.
    _known: dict[tuple[str, str], tuple[NodeInfo, tuple[int, int, float] | None]] = field(
        default_factory=dict
    )

    def find(self, asker: Asker) -> Room | None:
        """The cheapest moves found; the cluster is as after them, with the room held. None leaves all as it
        was."""
        left = [self.effort.tries, self.effort.chains]
        return self._find(asker, self.effort.most_moves, self.effort.depth, left)

    def _find(self, asker: Asker, most: int, depth: int, left: list[int]) -> Room | None:
        order = count()
        heap: list[tuple[Price, int, Any]] = []
        for node, price in self._bounds(asker):
            heappush(heap, (price, next(order), node))
        best: tuple[int, _Set] | None = None
        while heap:
            price, _, entry = heappop(heap)
            if price[1] > most or (best is not None and price[1] >= best[0]):
                break
            if isinstance(entry, str):
                self._expand(heap, order, asker, entry)
                continue
            if not isinstance(entry, _Set):
                entry = self._next(heap, order, *entry)
            kind = 1 if entry.more else 0
            left[kind] -= 1
            if left[kind] < 0:
                self.exhausted = True
                continue
            limit = (best[0] - 1) if best is not None else most
            mark = self._mark()
            room = self._make(asker, entry, limit, depth if entry.more else 0, left)
            if room is not None:
                if len(room.moves) == price[1]:
                    return room
                best = len(room.moves), entry
                self._back(mark)
            elif depth > entry.more and len(entry.pods) + entry.more < most:
                more = (price[0], price[1] + 1, *price[2:])
                heappush(heap, (more, next(order), entry._replace(more=entry.more + 1)))
        if best is None:
            return None
        again = [self.effort.tries, self.effort.chains]
        return self._make(asker, best[1], best[0], depth if best[1].more else 0, again)

    def _bounds(self, asker: Asker) -> Iterator[tuple[str, Price]]:
        """The nodes where room may be made, with the least price of doing so."""
        refused = self.cluster.in_tree.refused(asker.needs)
        closed = {hold.node for hold in self._holds}
        for node, pods in self._by_node().items():
            rejection = refused.get(node)
            if node in closed or (rejection is not None and not rejection.resolvable):
                continue
            # A change of a node gives it another object, and taking it back the same one.
            info, key = self.cluster.infos[node], (node, asker.uid)
            known = self._known.get(key)
            if known is None or known[0] is not info:
                known = self._known[key] = info, least_moves(self.cluster, asker, node, pods)
            bound = known[1]
            if bound is not None:
                yield node, (0.0, *bound)

    def _by_node(self) -> dict[str, list[MovablePod]]:
        found: dict[str, list[MovablePod]] = {}
        for pod in self.pods:
            if pod.uid not in self._moved:
                found.setdefault(pod.node, []).append(pod)
        return found

    def _expand(self, heap: list[tuple[Price, int, Any]], order: count[int], asker: Asker, node: str) -> None:
        here = [pod for pod in self.pods if pod.node == node and pod.uid not in self._moved]
        sets = LeavingSets(self.cluster, asker, node, here, self.budgets).sets()
        first = next(sets, None)
        if first is not None:
            heappush(heap, (first[0], next(order), (node, first[1], sets)))

    def _next(
        self,
        heap: list[tuple[Price, int, Any]],
        order: count[int],
        node: str,
        pods: tuple[MovablePod, ...],
        sets: Iterator[tuple[Price, tuple[MovablePod, ...]]],
    ) -> _Set:
        after = next(sets, None)
        if after is not None:
            heappush(heap, (after[0], next(order), (node, after[1], sets)))
        return _Set(node, pods, 0)

    def _make(self, asker: Asker, chosen: _Set, most: int, depth: int, left: list[int]) -> Room | None:
        """Move the pods of a set; None, and no change, if one finds no place. A pod that finds none is tried
        first the next time, because the others may have taken the only place for it."""
        mark = self._mark()
        self._hold(Hold(chosen.node, asker))
        held = self._mark()
        waiting = sorted(chosen.pods, key=_size, reverse=True)
        first: list[str] = []
        while True:
            moves, stuck = self._move_all(waiting, most, depth, left)
            if stuck is None:
                if len(moves) <= most and self.cluster.admits(asker, chosen.node):
                    return Room(chosen.node, moves)
                self.nearest = self.nearest or Stuck(chosen.node, chosen.pods, None)
                break
            if self.nearest is None:
                self.nearest = Stuck(chosen.node, chosen.pods, stuck)
            if stuck.uid in first:
                break
            first.append(stuck.uid)
            self._back(held)
            waiting = [stuck, *(pod for pod in waiting if pod is not stuck)]
        self._back(mark)
        return None

    def _move_all(
        self, pods: Sequence[MovablePod], most: int, depth: int, left: list[int]
    ) -> tuple[list[Move], MovablePod | None]:
        """The moves of these pods in their order, or the pod that finds no place."""
        moves: list[Move] = []
        for i, pod in enumerate(pods):
            move = self._move(pod)
            if move is None and depth:
                # The others of the set need a move each.
                spare = most - len(moves) - (len(pods) - i)
                room = self._find(pod.again, spare, depth - 1, left) if spare > 0 else None
                if room is not None:
                    moves += room.moves
                    self._release(Hold(room.node, pod.again))
                    move = self._move(pod)
            if move is None:
                return moves, pod
            moves.append(move)
        return moves, None

    def _move(self, pod: MovablePod) -> Move | None:
        cluster, mark = self.cluster, self.cluster.mark()
        if any(not self.budgets[i].allowed for i in pod.budgets):
            return None
        elsewhere = cluster.best(pod.again)
        cluster.evict(pod.node, [pod.uid])
        # Its departure makes room on its own node only.
        to = None
        if elsewhere is not None or cluster.admits(pod.again, pod.node):
            to = cluster.best(pod.again)
        if to is None:
            cluster.rollback(mark)
            return None
        devices = cluster.bind(pod.again, to)
        for i in pod.budgets:
            self.budgets[i] = replace(self.budgets[i], allowed=self.budgets[i].allowed - 1)
        self._moved.add(pod.uid)
        return Move(pod, to, devices, tuple(self._holds))

    def _hold(self, hold: Hold) -> None:
        self.cluster.hold(hold.node, hold.asker)
        self._holds.append(hold)

    def _release(self, hold: Hold) -> None:
        self.cluster.release(hold.node, hold.asker.uid)
        self._holds.remove(hold)

    def _mark(self) -> tuple[int, list[Budget], list[Hold], Collection[str]]:
        return self.cluster.mark(), list(self.budgets), list(self._holds), set(self._moved)

    def _back(self, mark: tuple[int, list[Budget], list[Hold], Collection[str]]) -> None:
        self.cluster.rollback(mark[0])
        self.budgets[:], self._holds[:], self._moved = mark[1], mark[2], set(mark[3])


def _size(pod: MovablePod) -> tuple[int, int]:
    """Pods of many GPUs find a place with more difficulty."""
    request = pod.again.request
    return sum(ask.count for ask in request.units), request.shares.total_mib if request.shares else 0
