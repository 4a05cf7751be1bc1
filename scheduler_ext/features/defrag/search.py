"""The fewest moves that let a pod in. Candidates are sets of pods on one node, by the number of moves that
they need at least: a set whose pods all find another place is a plan. A pod that finds none may itself have
room made for it elsewhere first, which counts as a set with more moves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.features.defrag.candidates import Bounded, CandidateQueue, PodSet, PodSets, dearer
from scheduler_ext.features.defrag.leaving_sets import LeavingSets, Price, least_moves
from scheduler_ext.features.defrag.movable import MovablePod
from scheduler_ext.features.defrag.moves import Effort, Hold, Move, Room, Stuck
from scheduler_ext.features.defrag.moving_cluster import MovingCluster
from scheduler_ext.whatif.whatif import PodInfo


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
    _work: int = 0
    _on: dict[str, list[MovablePod]] = field(default_factory=dict)
    # The bound of each node for each pod, with the node that it was computed for.
    _known: dict[tuple[str, str], tuple[NodeInfo, tuple[int, int] | None]] = field(default_factory=dict)

    def find(self, pod_info: PodInfo) -> Room | None:
        """The cheapest moves found; the cluster is as after them, with the room held. None leaves all as it
        was."""
        mark, most = self._mark(), self.effort.most_moves
        # Plans without room that is made for pods that move are found with little work.
        self._work = self.effort.work // 2
        direct = self._find(pod_info, most, 0)
        if direct is not None and len(direct[0].moves) == 1:
            return direct[0]
        self._back(mark)
        self._work = self.effort.work // 2
        fewer = self._find(pod_info, most if direct is None else len(direct[0].moves) - 1, self.effort.depth)
        if fewer is not None or direct is None:
            return fewer[0] if fewer is not None else None
        return self._again(pod_info, direct[1], len(direct[0].moves))

    def _find(self, pod_info: PodInfo, most: int, depth: int) -> tuple[Room, PodSet] | None:
        best: tuple[int, PodSet] | None = None
        queue = CandidateQueue(self._bounds(pod_info))
        while queue and queue.least_moves <= most and (best is None or queue.least_moves < best[0]):
            if self._work < 0:
                self.exhausted = True
                break
            price, entry = queue.pop()
            if isinstance(entry, str):
                for following in self._expanded(pod_info, entry, depth):
                    queue.push(following)
                continue
            if isinstance(entry, PodSets):
                queue.push(entry.following())
                self._spend()
                if not entry.sets.suffices(entry.first):
                    continue
                entry = PodSet(entry.node, entry.sets.pods(entry.first), entry.more)
            mark = self._mark()
            room = self._make(pod_info, entry, most if best is None else best[0] - 1, entry.more)
            if room is not None and len(room.moves) <= price[1]:
                return room, entry
            if room is not None:
                best = len(room.moves), entry
                self._back(mark)
            elif depth > entry.more:
                queue.push((dearer(price, 1), entry._replace(more=entry.more + 1)))
        room = self._again(pod_info, best[1], best[0]) if best is not None else None
        return (room, best[1]) if room is not None and best is not None else None

    def _again(self, pod_info: PodInfo, chosen: PodSet, moves: int) -> Room | None:
        """Make the moves of a set that is known to lead to a plan, whatever the work."""
        self._work = max(self._work, self.effort.work)
        return self._make(pod_info, chosen, moves, chosen.more)

    def _bounds(self, pod_info: PodInfo) -> Iterator[tuple[Price, Bounded]]:
        """The nodes where room may be made, with a lower bound of the price of doing so."""
        closed = {hold.node for hold in self._holds}
        self._work -= len(self.cluster.infos) // self.effort.bounds_per_work
        for node, every in self._by_node().items():
            pods = [pod for pod in every if pod.uid not in self._moved] if self._moved else every
            if node in closed or not pods:
                continue
            # A change of a node gives it another object, and taking it back the same one.
            info, key = self.cluster.infos[node], (node, pod_info.uid)
            known = self._known.get(key)
            if known is None or known[0] is not info:
                known = self._known[key] = info, least_moves(self.cluster, pod_info, node, pods)
            bound = known[1]
            if bound is not None:
                yield (0.0, *bound, 0.0), Bounded(node, pods)

    def _by_node(self) -> dict[str, list[MovablePod]]:
        if not self._on:
            for pod in self.pods:
                self._on.setdefault(pod.node, []).append(pod)
        return self._on

    def _here(self, node: str) -> list[MovablePod]:
        return [pod for pod in self._by_node()[node] if pod.uid not in self._moved and pod.can_be_read]

    def _expanded(self, pod_info: PodInfo, node: str, depth: int) -> Iterator[tuple[Price, PodSets]]:
        """The sets of pods on a node: first those whose pods all have another place now; then, a move dearer,
        those with a pod that needs room elsewhere."""
        rejection = self.cluster.in_tree.refusal(pod_info.needs, node)
        if rejection is not None and not rejection.resolvable:
            return
        here = self._here(node)
        placeable = {pod.uid for pod in here if self._has_place(pod)}
        direct = [pod for pod in here if pod.uid in placeable]
        # Room for a pod that asks the same is the same room.
        here = [pod for pod in here if pod.uid in placeable or not _asks_the_same(pod.again, pod_info)]
        for pods, more in ((direct, 0), (here, 1)):
            if more > depth or not pods or (more and len(direct) == len(here)):
                continue
            sets = LeavingSets(self.cluster, pod_info, node, pods, self.budgets)
            stuck = {pod.uid for pod in pods} - placeable if more else None
            others = sets.sets(stuck)
            first = next(others, None)
            if first is not None:
                yield dearer(first[0], more), PodSets(node, sets, first[1], others, more)

    def _has_place(self, pod: MovablePod) -> bool:
        """Whether a pod would find a place as the cluster is: on another node, or for a share on another GPU
        of its own node."""
        shares = pod.again.request.shares
        if shares is not None:
            mine = {uuid for uuids in pod.bound.devices.values() for uuid in uuids}
            for uuid, slot in self.cluster.snapshot.nodes[pod.node].gpus:
                if uuid not in mine and slot.share_free_mib >= shares.largest_mib:
                    return True
        return self.cluster.fits_besides(pod.again, pod.node)

    def _spend(self) -> bool:
        """Count a piece of work; False when none is left."""
        self._work -= 1
        return self._work >= 0

    def _make(self, pod_info: PodInfo, chosen: PodSet, most: int, depth: int) -> Room | None:
        """Move the pods of a set; None, and no change, if one finds no place. A pod that finds none is tried
        first the next time, because the others may have taken the only place for it."""
        mark = self._mark()
        leaving = {pod.uid for pod in chosen.pods}
        devices = self.cluster.devices_without(chosen.node, pod_info, leaving)
        self._hold(Hold(chosen.node, pod_info, devices))
        held = self._mark()
        waiting = sorted(chosen.pods, key=_size, reverse=True)
        first: list[str] = []
        while True:
            moves, stuck = self._move_all(waiting, most, depth)
            if stuck is None:
                if len(moves) <= most and self.cluster.admits(pod_info, chosen.node):
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
        self, pods: Sequence[MovablePod], most: int, depth: int
    ) -> tuple[list[Move], MovablePod | None]:
        """The moves of these pods in their order, or the pod that finds no place."""
        moves: list[Move] = []
        for i, pod in enumerate(pods):
            move = self._move(pod)
            if move is None and depth:
                # The others of the set need a move each.
                spare = most - len(moves) - (len(pods) - i)
                found = self._find(pod.again, spare, depth - 1) if spare > 0 else None
                if found is not None:
                    moves += found[0].moves
                    self._release(found[0].node, pod.again)
                    move = self._move(pod)
            if move is None:
                return moves, pod
            moves.append(move)
        return moves, None

    def _move(self, pod: MovablePod) -> Move | None:
        cluster, mark = self.cluster, self.cluster.mark()
        if not self._spend() or any(not self.budgets[i].allowed for i in pod.budgets):
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
        self.cluster.hold(hold.node, hold.pod_info, hold.devices)
        self._holds.append(hold)

    def _release(self, node: str, pod_info: PodInfo) -> None:
        self.cluster.release(node, pod_info.uid)
        self._holds = [hold for hold in self._holds if (hold.node, hold.pod_info.uid) != (node, pod_info.uid)]

    def _mark(self) -> tuple[int, list[Budget], list[Hold], Collection[str]]:
        return self.cluster.mark(), list(self.budgets), list(self._holds), set(self._moved)

    def _back(self, mark: tuple[int, list[Budget], list[Hold], Collection[str]]) -> None:
        self.cluster.rollback(mark[0])
        self.budgets[:], self._holds[:], self._moved = mark[1], mark[2], set(mark[3])


def _asks_the_same(one: PodInfo, other: PodInfo) -> bool:
    def constraints(each: PodInfo) -> tuple[object, ...]:
        request, needs = each.request, each.needs
        return request.units, request.shares, request.models, needs.node_selector, needs.required_terms

    return constraints(one) == constraints(other) and one.needs.tolerations == other.needs.tolerations


def _size(pod: MovablePod) -> tuple[int, int]:
    """Pods of many GPUs find a place with more difficulty."""
    request = pod.again.request
    return sum(ask.count for ask in request.units), request.shares.total_mib if request.shares else 0
