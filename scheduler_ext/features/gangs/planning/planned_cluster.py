"""A running cluster on which places are tried: the filters and scores of production on the latest snapshot,
with what the plan holds already, and kube-scheduler's own filters.

A pod that is put on a node changes this node alone, so only that node is decided again. What nodes are
compared with, such as the scarcity of a model, stays as it is in the snapshot until the next one."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from scheduler_ext.core.cache.kept_places import KeptPlace
from scheduler_ext.core.cycle.cycle import Codes, Decision, filter_nodes
from scheduler_ext.core.cycle.placement import Sizing, place
from scheduler_ext.core.cycle.placing import BestNode
from scheduler_ext.core.filters import REASONS, reason_text
from scheduler_ext.core.node.columns import Bools, Floats
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo, NodeState
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.features.gangs.planning.draining import Running
from scheduler_ext.features.gangs.planning.emptied_nodes import EmptiedNodes
from scheduler_ext.features.gangs.planning.in_tree_filters import InTreeView
from scheduler_ext.features.gangs.planning.waiting_pod import Amounts, WaitingPod, amounts_needed


@dataclass(slots=True)
class _Totals:
    """The total of each node for one request, `[row]`, -inf where it does not fit, and its verdict, after so
    many changes. Rows in `open` are still to be decided again, those in `short` do not fit, and only their
    verdicts are. `by_state` has the totals and verdicts of states that came by changes."""

    decision: Decision
    totals: Floats
    verdict: Codes
    changes: int = 0
    open: set[int] = field(default_factory=set)
    short: set[int] = field(default_factory=set)
    by_state: dict[NodeState, tuple[float, int]] = field(default_factory=dict)

    def set(self, row: int, found: tuple[float, int]) -> None:
        self.totals[row], self.verdict[row] = found


class PlannedCluster:
    """A `Draining` cluster of one snapshot. `seen` are the nodes that differ from those of the snapshot, such
    as ones with pods that another component nominated. `resolved` gives the state that the pods of a node
    leave."""

    def __init__(
        self,
        snapshot: Snapshot,
        sizing: Sizing,
        in_tree: InTreeView,
        seen: Mapping[str, NodeInfo],
        emptied: EmptiedNodes | None = None,
        resolved: Callable[[NodeInfo], Node] | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._sizing = sizing
        self._in_tree = in_tree
        self._emptied = emptied
        self._resolve = resolved or sizing.resolved
        self._names = list(snapshot.row_of)
        self._infos = dict(seen)
        # Kept with what it was resolved from.
        self._resolved: dict[int, tuple[NodeInfo, Node]] = {}
        # Pods that have left, by uid: nodes with the same objects are compared quickly.
        self._gone: dict[str, BoundPod | None] = {}
        self._changed = [snapshot.row_of[name] for name in seen]
        self._totals: dict[GpuRequest, _Totals] = {}
        self._undo: list[Callable[[], None]] = []
        # The last set of nodes, and its rows: searches ask within one set thousands of times.
        self._among: tuple[frozenset[str] | None, Bools] = None, np.zeros(0, np.bool_)
        # The last nodes within reach: many gangs that wait have the same.
        self._reach: tuple[Bools, frozenset[str]] | None = None

    @property
    def nodes(self) -> Collection[str]:
        return self._snapshot.nodes.keys()

    def best(self, ask: WaitingPod, among: Collection[str] | None = None) -> BestNode | None:
        """The place of a pod now: of the nodes that it prefers most by its node affinity, the one with the
        highest total, then the first name."""
        kept = self._totals_of(ask.request, among)
        totals = np.where(self._in_tree.passed(ask), kept.totals, -np.inf)
        if among is not None:
            totals = np.where(self._rows(among), totals, -np.inf)
        preferences = self._in_tree.preferences(ask.needs)
        if preferences is not None:
            most = preferences.max(initial=0, where=totals > -np.inf)
            totals[preferences < most] = -np.inf
        best = totals.max(initial=-np.inf)
        if best == -np.inf:
            return None
        equal = np.flatnonzero(totals == best)
        row = int(equal[self._snapshot.name_rank[equal].argmin()])
        return BestNode(self._name(row), float(best))

    def put(self, ask: WaitingPod, node: str) -> None:
        """A pod is planned on a node that takes it."""
        self.keep(ask.pod, ask.amounts, node)

    def keep(self, pod: BoundPod, amounts: Amounts, node: str) -> None:
        """A pod has a place on a node. A share gets the GPU that bind would choose now."""
        info = self.info(node)
        if pod.request.shares is not None and not pod.devices:
            found = place(info, pod.request, self._sizing, within=self._snapshot)
            pod = pod if isinstance(found, str) else replace(pod, devices=found.devices)
        self._change(replace(info, planned=(*info.planned, pod)), amounts)

    def hold(self, place: KeptPlace, amounts: Amounts) -> None:
        """A place is kept already; the snapshot may show it, or another place of the pod, or none yet."""
        uid, names = place.pod.uid, self._snapshot.row_of
        published = self._snapshot.planned.node_of(uid)
        if published == place.node or (place.node in names and uid in self.info(place.node).assumed):
            # It holds its room there, as a place or while it is being bound.
            self._in_tree.take(names[place.node], amounts)
            return
        if published is not None:
            self.release(uid, {}, published)
        if place.node in names:
            self.keep(place.pod, amounts, place.node)

    def take_back(self, ask: WaitingPod, node: str) -> None:
        """The place of a pod is not kept any more, whether it was planned now or before."""
        self.release(ask.uid, ask.amounts, node)

    def release(self, uid: str, amounts: Amounts, node: str) -> None:
        """As `take_back`, for a pod of this uid."""
        info = self.info(node)
        planned = tuple(pod for pod in info.planned if pod.uid != uid)
        self._change(replace(info, planned=planned), amounts, -1)

    def remove(self, running: Running) -> None:
        """A pod has left its node."""
        info, uid = self.info(running.node), running.uid
        if running.planned is not None:
            self._gone[uid] = self.planned_on(running.node, uid)
            self.take_back(running.planned, running.node)
        elif (pod := next((each for each in info.pods if each.uid == uid), None)) is not None:
            gone = self._gone.get(uid) or replace(pod, departed=True)
            self._gone[uid] = gone
            self._replace(info, pod, gone, -1)

    def bring_back(self, running: Running) -> None:
        """A pod that has left is on its node again, with the same GPUs."""
        info, gone = self.info(running.node), self._gone.get(running.uid)
        if running.planned is not None:
            planned = info.planned if gone is None else (*info.planned, gone)
            self._change(replace(info, planned=planned), running.planned.amounts)
        elif gone is not None:
            self._replace(info, gone, running.pod, 1)

    def _replace(self, info: NodeInfo, pod: BoundPod, by: BoundPod, pods: int) -> None:
        there = tuple(by if each is pod else each for each in info.pods)
        self._change(replace(info, pods=there), amounts_needed(pod.other_requests, frozenset()), pods)

    def mark(self) -> int:
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        while len(self._undo) > mark:
            self._undo.pop()()

    def planned_on(self, node: str, uid: str) -> BoundPod | None:
        """The pod of this uid that has a place on a node, with the GPUs of its shares."""
        there = self.info(node).planned if node in self._snapshot.nodes else ()
        return next((pod for pod in there if pod.uid == uid), None)

    def count(self, ask: WaitingPod) -> int:
        """The number of nodes that take a pod."""
        fits = self._in_tree.passed(ask) & (self._totals_of(ask.request).totals > -np.inf)
        return int(np.count_nonzero(fits))

    def refusals(self, ask: WaitingPod, among: Collection[str] | None = None) -> Counter[str]:
        """The number of nodes, of these or all, that refuse a pod, by reason: kube-scheduler's own, then
        those of GPUs."""
        rows = np.ones(len(self._names), np.bool_) if among is None else self._rows(among)
        found = self._in_tree.refusals(ask, rows)
        codes = self._verdicts(ask.request)[self._in_tree.passed(ask) & rows]
        counts = np.bincount(codes, minlength=len(REASONS) + 1).tolist()
        for code, count in enumerate(counts):
            if code and count:
                found[reason_text(code, ask.request)] += count
        return found

    def within_reach(self, ask: WaitingPod) -> frozenset[str]:
        """The nodes that take a pod now, or would if other pods left."""
        assert self._emptied is not None
        possible = self._in_tree.could_pass(ask) & self._emptied.fits(self._snapshot, ask.request)
        possible |= self._in_tree.passed(ask) & (self._totals_of(ask.request).totals > -np.inf)
        if self._reach is None or not np.array_equal(possible, self._reach[0]):
            names = frozenset(self._name(row) for row in np.flatnonzero(possible).tolist())
            self._reach = possible, names
        return self._reach[1]

    def part_asked(self, asks: Iterable[WaitingPod], nodes: Collection[str]) -> float:
        """What these pods ask of the GPUs of nodes, as a part of them; 0 of nodes without any."""
        there = sum(self._snapshot.nodes[node].state.gpus for node in nodes)
        return sum(ask.gpus for ask in asks) / there if there else 0.0

    def info(self, node: str) -> NodeInfo:
        """A node as it is now."""
        return self._infos.get(node) or self._snapshot.nodes[node].info

    def _change(self, info: NodeInfo, amounts: Amounts, pods: int = 1) -> None:
        """A node is so from now on, with so many more pods of these amounts."""
        row = self._snapshot.row_of[info.name]
        self._undo.append(partial(self._set, row, info.name, self._infos.get(info.name), amounts, -pods))
        self._set(row, info.name, info, amounts, pods)

    def _set(self, row: int, name: str, info: NodeInfo | None, amounts: Amounts, pods: int) -> None:
        if info is None:
            del self._infos[name]
        else:
            self._infos[name] = info
        self._in_tree.take(row, amounts, pods)
        self._changed.append(row)

    def _kept(self, request: GpuRequest) -> _Totals:
        kept = self._totals.get(request)
        if kept is None:
            decision = filter_nodes(request, self._snapshot, self._sizing.policy)
            states = self._snapshot.state_of[:-1]
            kept = _Totals(decision, decision.totals[states], decision.verdict[states])
            self._totals[request] = kept
        return kept

    def _totals_of(self, request: GpuRequest, among: Collection[str] | None = None) -> _Totals:
        """The totals as the nodes are now; a question about one node leaves the others for later."""
        kept = self._kept(request)
        kept.open.update(self._changed[kept.changes :])
        kept.changes = len(self._changed)
        rows = set(kept.open)
        if among is not None and len(among) == 1:
            rows &= {self._snapshot.row_of[name] for name in among}
        short = {row for row in rows if self._lacks_units(self.info(self._name(row)), request)}
        kept.open -= rows
        kept.short |= short
        kept.totals[list(short)] = -np.inf
        self._decide(request, kept, rows - short)
        return kept

    @staticmethod
    def _lacks_units(info: NodeInfo, request: GpuRequest) -> bool:
        """Whether a node has too few units by its allocatable. That is seen quickly, and is so of most nodes
        that a search asks about."""
        there = [each for pod in (*info.pods, *info.planned) if pod.holds for each in pod.request.units]
        return any(
            info.limit(ask.resource) - sum(each.count for each in there if each.resource == ask.resource)
            < ask.count
            for ask in request.units
            if not ask.by_claim
        )

    def _verdicts(self, request: GpuRequest) -> Codes:
        """The reason for which each node refuses a request as it is now, `[row]`."""
        kept = self._totals_of(request)
        self._decide(request, kept, kept.short)
        kept.short = set()
        return kept.verdict

    def _decide(self, request: GpuRequest, kept: _Totals, rows: Collection[int]) -> None:
        new: dict[str, Node] = {}
        for row in rows:
            name = self._name(row)
            node = self._node(name)
            if node is self._snapshot.nodes[name]:
                state = self._snapshot.state_of[row]
                kept.set(row, (kept.decision.totals[state], kept.decision.verdict[state]))
            elif node.state in kept.by_state:
                kept.set(row, kept.by_state[node.state])
            else:
                new[name] = node
        if new:
            part = build_snapshot(new, self._snapshot.generation, within=self._snapshot)
            decision = filter_nodes(request, part, self._sizing.policy)
            for name, state in zip(new, part.state_of[:-1].tolist(), strict=True):
                found = float(decision.totals[state]), int(decision.verdict[state])
                kept.set(self._snapshot.row_of[name], found)
                kept.by_state[new[name].state] = found

    def _node(self, name: str) -> Node:
        info = self._infos.get(name)
        if info is None:
            return self._snapshot.nodes[name]
        known = self._resolved.get(id(info))
        if known is None:
            known = self._resolved[id(info)] = info, self._resolve(info)
        return known[1]

    def _name(self, row: int) -> str:
        return self._names[row]

    def _rows(self, names: Collection[str]) -> Bools:
        if names is not self._among[0]:
            among = np.zeros(len(self._snapshot.nodes), np.bool_)
            rows = self._snapshot.rows(list(names))
            among[rows[rows >= 0]] = True
            if not isinstance(names, frozenset):
                return among
            self._among = names, among
        return self._among[1]
