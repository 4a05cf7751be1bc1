"""One published snapshot, the views that pods have of it, and the latest decisions on it."""

from collections.abc import Mapping
from functools import cached_property
from threading import Lock

from cachetools import LRUCache

from scheduler_ext.core.cycle.cycle import Decision, filter_nodes
from scheduler_ext.core.cycle.overlay import Overlay, filter_overlay, with_nodes
from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.node.nominated import without_kept
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot

# prioritize follows filter for the same pod, and the pods of a Deployment have equal requests. A lost
# decision only costs its recomputation.
_REMEMBERED_DECISIONS = 64
_REMEMBERED_OVERLAYS = 16
# Views of single nodes: more than there are nominated pods at a time.
_REMEMBERED_NODES = 512

# A pod's own view of a node: the pods that count there, and those that are only in this view.
_ViewKey = tuple[str, tuple[str, ...], tuple[object, ...]]


def _key(node: NodeInfo, seen: NodeInfo) -> _ViewKey:
    """Identifies one view of a node among all its views."""
    known = set(map(id, node.pods))
    own = (
        (pod.uid, pod.terminating, tuple(pod.devices.items())) for pod in seen.pods if id(pod) not in known
    )
    uids = (pod.uid for pod in (*seen.pods, *seen.planned))
    return seen.name, tuple(uids), tuple(own)


class NodeViews:
    """Nodes that differ for some pods, kept across generations. Safe to use from several threads."""

    def __init__(self, sizing: Sizing) -> None:
        self._sizing = sizing
        self._lock = Lock()
        self._known: LRUCache[_ViewKey, tuple[Node, Node]] = LRUCache(_REMEMBERED_NODES)

    def resolved(self, node: Node, seen: NodeInfo) -> Node:
        """The node in the view `seen`, which follows from the node and from the pods that count."""
        if seen is node.info:
            return node
        key = _key(node.info, seen)
        with self._lock:
            known = self._known.get(key)
        if known is not None and known[0] is node:
            return known[1]
        resolved = self._sizing.resolved(seen)
        with self._lock:
            self._known[key] = node, resolved
        return resolved


class Generation:
    """Safe to use from several threads. Decisions are remembered for this snapshot only and are dropped with
    it, so a decision on an older generation is never reused."""

    def __init__(self, snapshot: Snapshot, policy: SchedulingPolicy, nodes: NodeViews) -> None:
        self.snapshot = snapshot
        self._policy = policy
        self._nodes = nodes
        self._lock = Lock()
        self._decisions: LRUCache[tuple[GpuRequest, Snapshot], Decision] = LRUCache(_REMEMBERED_DECISIONS)
        self._overlays: LRUCache[tuple[_ViewKey, ...], Overlay] = LRUCache(_REMEMBERED_OVERLAYS)

    def snapshot_with(self, infos: Mapping[str, NodeInfo]) -> Snapshot:
        """The snapshot for a pod that sees these nodes differently
        (`PreemptionAnswers.nodes_with_nominated_pods`), mostly as it is."""
        snapshot = self.snapshot
        if not infos:
            return snapshot
        own = tuple(sorted(_key(snapshot.nodes[name].info, info) for name, info in infos.items()))
        with self._lock:
            seen = self._overlays.get(own)
        if seen is None:
            nodes = {name: self._nodes.resolved(snapshot.nodes[name], info) for name, info in infos.items()}
            seen = with_nodes(snapshot, nodes)
            with self._lock:
                seen = self._overlays.setdefault(own, seen)
        return seen

    def alone(self, name: str, seen: NodeInfo) -> Snapshot:
        """One node as a pod sees it. It takes no longer in a large cluster."""
        snapshot = self.snapshot
        node = self._nodes.resolved(snapshot.nodes[name], seen)
        return build_snapshot({name: node}, snapshot.generation, within=snapshot)

    @cached_property
    def unkept(self) -> Snapshot:
        """The nodes with room that is kept for gangs, alone and as they were without it."""
        snapshot, kept = self.snapshot, {}
        for name in snapshot.planned.kept:
            node = snapshot.nodes[name]
            kept[name] = self._nodes.resolved(node, without_kept(node.info))
        return build_snapshot(kept, snapshot.generation, within=snapshot)

    def decide(self, request: GpuRequest, seen: Snapshot) -> Decision:
        """The decision about a request on a view from `snapshot_with`."""
        with self._lock:
            decision = self._decisions.get((request, seen))
        if decision is None:
            if isinstance(seen, Overlay) and seen.counts_alike:
                decision = filter_overlay(self.decide(request, self.snapshot), seen)
            else:
                decision = filter_nodes(request, seen, self._policy)
            with self._lock:
                self._decisions[request, seen] = decision
        return decision
