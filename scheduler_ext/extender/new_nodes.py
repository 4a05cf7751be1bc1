"""Whether a new node of an existing kind would take a pod: decided by the filters on empty copies of the
nodes."""

from collections.abc import Hashable
from dataclasses import replace
from threading import Lock
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from cachetools import LRUCache

from scheduler_ext.core.cycle.cycle import FITS, Decision, filter_nodes
from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.filters import reason_text
from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.core.node.as_new import as_new, kind_key
from scheduler_ext.core.node.columns import Ints
from scheduler_ext.core.node.node import Node, NodeInfo, NodeState
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot

Cure: TypeAlias = Literal["curable", "incurable", "unknown"]
CURES: Final[tuple[Cure, ...]] = ("curable", "incurable", "unknown")
# Distinct requests whose verdicts are remembered, for the kinds of the latest snapshot.
_REMEMBERED = 128


# A node of a kind: best first, so that the smallest number is the best verdict.
_RANK = {cure: rank for rank, cure in enumerate(("curable", "unknown", "incurable"))}
_BY_RANK: tuple[Cure, ...] = ("curable", "unknown", "incurable")
# Kinds that no node has any longer, beside those in use.
_SPARE = 64


class _NewNodeKind(NamedTuple):
    """What is known of a new node (`least`), and what it may be at most; see AsNew."""

    least: NodeState | None
    most: NodeState | None
    any_model: bool
    uncut: GpuModel | None

    def may_be_cut_for(self, request: GpuRequest) -> bool:
        """Whether a MIG layout that is still to come may have what a pod asks."""
        is_mig = any(ask.profile is not None for ask in request.units)
        if self.uncut is None or not is_mig:
            return False
        return not request.models or request.model_rank(self.uncut) is not None


class NewNodes:
    """The kinds of nodes of a cluster. Safe to use from several threads; a node is copied again only after a
    change of it."""

    def __init__(self, sizing: Sizing) -> None:
        self._sizing = sizing
        self._lock = Lock()
        self._of_snapshot: Snapshot | None = None
        # Each node with the number of its kind.
        self._known: dict[str, tuple[NodeInfo, int]] = {}
        self._kinds: dict[_NewNodeKind, int] = {}
        # Most nodes are like another one, and need no copy.
        self._by_key: dict[Hashable, int] = {}
        # A copy for each state of a kind.
        self._copies: dict[NodeState, Node] = {}
        self._states: Snapshot | None = None
        self._remembered: LRUCache[GpuRequest, list[Cure]] = LRUCache(_REMEMBERED)

    def cures(self, request: GpuRequest | InvalidRequest, snapshot: Snapshot) -> dict[str, Cure]:
        """By the name of each node: whether a new node like it would take a pod. None takes an invalid
        request."""
        if isinstance(request, InvalidRequest):
            return dict.fromkeys(snapshot.nodes, "incurable")
        with self._lock:
            self._follow(snapshot)
            cures = self._cures(request)
            return {name: cures[kind] for name, (_, kind) in self._known.items()}

    def by_reason(self, decision: Decision, rows: Ints) -> dict[str, Cure]:
        """For each reason that refuses a node at `rows`: the best verdict on a new node like one of these."""
        snapshot = decision.snapshot
        cures = self.cures(decision.request, snapshot)
        # A name that is no node here has the last row.
        ranks = np.full(len(snapshot.state_of), _RANK["unknown"])
        ranks[snapshot.rows(list(cures))] = [_RANK[cure] for cure in cures.values()]
        codes, here = decision.verdict[snapshot.state_of[rows]], ranks[rows]
        return {
            reason_text(code, decision.request): _BY_RANK[int(here[codes == code].min())]
            for code in np.unique(codes).tolist()
            if code != FITS
        }

    def _follow(self, snapshot: Snapshot) -> None:
        if snapshot is self._of_snapshot:
            return
        known, before = {}, self._known
        for name, node in snapshot.nodes.items():
            last = before.get(name)
            same = last is not None and last[0] is node.info
            known[name] = last if last is not None and same else (node.info, self._kind_of(node.info))
        self._known, self._of_snapshot = known, snapshot
        used = len({kind for _, kind in known.values()})
        if len(self._kinds) > 2 * used + _SPARE or len(self._by_key) > 2 * len(known) + _SPARE:
            self._kinds, self._copies, self._by_key, self._states = {}, {}, {}, None
            self._remembered.clear()
            self._known = {name: (info, self._kind_of(info)) for name, (info, _) in known.items()}

    def _kind_of(self, info: NodeInfo) -> int:
        key = kind_key(info)
        if key is None:
            return self._computed_kind(info)
        kind = self._by_key.get(key)
        if kind is None:
            kind = self._by_key[key] = self._computed_kind(info)
        return kind

    def _computed_kind(self, info: NodeInfo) -> int:
        copy = as_new(info, self._sizing.resources, self._sizing.headroom_percent)
        kind = _NewNodeKind(self._state(copy.least), self._state(copy.most), copy.any_model, copy.uncut)
        if kind not in self._kinds:
            self._kinds[kind] = len(self._kinds)
            self._states = None
            self._remembered.clear()
        return self._kinds[kind]

    def _state(self, info: NodeInfo | None) -> NodeState | None:
        if info is None:
            return None
        node = self._sizing.resolved(info)
        return self._copies.setdefault(node.state, node).state

    def _cures(self, request: GpuRequest) -> list[Cure]:
        """The verdict on each kind, by its number."""
        known = self._remembered.get(request)
        if known is None:
            takes = self._takers(request)
            any_model = self._takers(replace(request, models=())) if request.models else takes
            known = self._remembered[request] = [
                "curable"
                if kind.least in takes
                else "unknown"
                if kind.most is None
                or kind.most in (any_model if kind.any_model else takes)
                or kind.may_be_cut_for(request)
                else "incurable"
                for kind in self._kinds
            ]
        return known

    def _takers(self, request: GpuRequest) -> set[NodeState]:
        if self._states is None:
            self._states = build_snapshot({str(i): node for i, node in enumerate(self._copies.values())}, 1)
        decision = filter_nodes(request, self._states, self._sizing.policy)
        return {
            state for state, fits in zip(self._states.states, decision.fits.tolist(), strict=True) if fits
        }
