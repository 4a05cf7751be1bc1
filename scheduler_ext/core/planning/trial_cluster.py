"""A cluster in memory for gangs: pods are put on nodes and leave them, and changes are taken back."""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from scheduler_ext.core.cycle.cycle import Decision, filter_nodes
from scheduler_ext.core.cycle.overlay import with_nodes
from scheduler_ext.core.cycle.placement import Sizing, share_devices
from scheduler_ext.core.intree import NodeFacts, PodNeeds, intree_rejection
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo
from scheduler_ext.core.node.placed import with_pod
from scheduler_ext.core.planning.draining import Running
from scheduler_ext.core.planning.placing import Place
from scheduler_ext.core.preemption.dry_run import without
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot

_ANY = {"pods": Fraction(10**6)}


@dataclass(frozen=True, slots=True)
class PodAsking:
    """A waiting pod: its request, and its needs of kube-scheduler's own filters."""

    pod: BoundPod
    needs: PodNeeds
    kind: Hashable

    @property
    def uid(self) -> str:
        return self.pod.uid

    @property
    def request(self) -> GpuRequest:
        return self.pod.request

    @property
    def priority(self) -> int:
        return self.pod.priority

    @property
    def gpus(self) -> float:
        return float(sum(max(1, ask.count) for ask in self.pod.request.units))


class TrialCluster:
    """A `Draining` over a snapshot; `infos` replace the nodes of the same names."""

    def __init__(
        self,
        base: Snapshot,
        infos: Mapping[str, NodeInfo],
        facts: Mapping[str, NodeFacts],
        sizing: Sizing,
    ) -> None:
        self._base, self._facts, self._sizing = base, facts, sizing
        self._changed: dict[str, Node] = {name: sizing.resolved(info) for name, info in infos.items()}
        self._journal: list[tuple[str, Node | None]] = []
        self._snapshot: Snapshot | None = None
        self._decisions: dict[GpuRequest, Decision] = {}
        self._refused: dict[str, list[str]] = {}
        self._emptied: Snapshot | None = None
        self._reach: dict[Hashable, Collection[str]] = {}

    @property
    def nodes(self) -> Collection[str]:
        return self._base.nodes.keys()

    def info(self, name: str) -> NodeInfo:
        """A node as it is now."""
        return (self._changed.get(name) or self._base.nodes[name]).info

    def best(self, ask: PodAsking, among: Collection[str] | None = None) -> Place | None:
        snapshot = self._now()
        totals = self._decide(ask.request).totals[snapshot.state_of[:-1]].copy()
        totals[snapshot.rows(self._refusing(ask.needs))] = -np.inf
        if among is not None:
            inside = snapshot.rows([name for name in among if name in snapshot.nodes])
            kept = np.full(len(totals), -np.inf, totals.dtype)
            kept[inside] = totals[inside]
            totals = kept
        best = totals.max(initial=-np.inf)
        if best == -np.inf:
            return None
        equal = np.flatnonzero(totals == best)
        row = int(equal[snapshot.name_rank[:-1][equal].argmin()])
        return Place(self._names[row], float(best))

    @property
    def _names(self) -> list[str]:
        return list(self._base.nodes)

    def put(self, ask: PodAsking, node: str) -> None:
        snapshot, decision = self._now(), self._decide(ask.request)
        devices = share_devices(snapshot.nodes[node], snapshot.state_at(node), decision)
        pod = replace(ask.pod, devices=devices, started_at=None)
        self._set(with_pod(self.info(node), pod, self._sizing.resources))

    def remove(self, running: Running) -> None:
        self._set(without(self.info(running.node), [running.pod]))

    def take_back(self, ask: PodAsking, node: str) -> None:
        info = self.info(node)
        claim = f"claim of {ask.uid}"
        claims = tuple(each for each in info.claims if each.uid != claim)
        self._set(
            replace(info, pods=tuple(pod for pod in info.pods if pod.uid != ask.uid), claims=claims)
        )

    def within_reach(self, ask: PodAsking) -> Collection[str]:
        key = ask.request, ask.needs.node_selector.__repr__(), ask.kind
        if key not in self._reach:
            snapshot = self._empty()
            totals = filter_nodes(ask.request, snapshot, self._sizing.policy).fits[snapshot.state_of[:-1]]
            refused = set(self._refusing(ask.needs))
            names = self._names
            self._reach[key] = frozenset(
                names[int(i)] for i in np.flatnonzero(totals) if names[int(i)] not in refused
            )
        return self._reach[key]

    def mark(self) -> int:
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        while len(self._journal) > mark:
            name, before = self._journal.pop()
            if before is None:
                del self._changed[name]
            else:
                self._changed[name] = before
            self._snapshot = None

    def _set(self, info: NodeInfo) -> None:
        self._journal.append((info.name, self._changed.get(info.name)))
        self._changed[info.name] = self._sizing.resolved(info)
        self._snapshot = None

    def _now(self) -> Snapshot:
        if self._snapshot is None:
            self._snapshot = with_nodes(self._base, self._changed) if self._changed else self._base
            self._decisions = {}
        return self._snapshot

    def _decide(self, request: GpuRequest) -> Decision:
        snapshot = self._now()
        if request not in self._decisions:
            self._decisions[request] = filter_nodes(request, snapshot, self._sizing.policy)
        return self._decisions[request]

    def _refusing(self, needs: PodNeeds) -> list[str]:
        key = replace(needs, requests={})
        alike = repr(key)
        found = self._refused.get(alike)
        if found is None:
            found = [
                name
                for name in self._base.nodes
                if (facts := self._facts.get(name)) is None
                or intree_rejection(
                    key, replace(facts, allocatable=_ANY), ignore_resources=frozenset()
                )
                is not None
            ]
            self._refused[alike] = found
        return found

    def _empty(self) -> Snapshot:
        if self._emptied is None:
            nodes = {
                name: self._sizing.resolved(without(replace(node.info, nominated=()), node.info.pods))
                for name, node in self._base.nodes.items()
            }
            self._emptied = with_nodes(self._base, nodes)
        return self._emptied
