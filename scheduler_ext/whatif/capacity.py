"""How many more of a pod a cluster takes, node by node, and what refuses the next one."""

from bisect import bisect_left
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

from scheduler_ext.core.cycle.cycle import FITS, filter_nodes
from scheduler_ext.core.framework.refusal import INVALID_REQUEST
from scheduler_ext.core.intree import NO_NODES, InTreeRejection, NodeFacts, PodNeeds, intree_rejection
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.explain.explain import API_VERSION, asked, needs_of, wish
from scheduler_ext.explain.ineffective import warnings
from scheduler_ext.explain.intree_nodes import InTreeNodes, with_pods
from scheduler_ext.explain.nearest import Refused, miss_of, nearest
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.whatif.copies import NO_LIMIT, Vessel, fill_all, filled, gpus_used
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.pod.pod_identity import pod_name, pod_priority
from scheduler_ext.wire.pod.pod_needs import not_modelled


def capacity(pod: kube.Pod, state: ClusterState, config: Configuration) -> dict[str, Any]:
    """The Capacity of a cluster for a pod, as plain JSON values: nodes with most first, then by name. A count
    is null, and so is the total, where no known limit applies. Raises PodError for the pod, InventoryError
    for an object of the inventory, naming the field that cannot be read."""
    request = wish(pod, config, state.claims)
    namespace, _, name = pod_name(pod).partition("/")
    if isinstance(request, InvalidRequest):
        reason = INVALID_REQUEST.text
        counted: dict[str, Any] = {
            "total": 0,
            "gpus": 0,
            "nodes": [{"node": name, "count": 0, "gpus": 0, "limit": reason} for name in sorted(state.infos)],
            "next": {"node": None, "reason": reason, "nearestMiss": None},
        }
    else:
        seen = state.seen_by(state.waiting_uid(pod), pod_priority(pod), config.sizing())
        counted = _counted(request, needs_of(pod, state.claims), state, config, seen)
    return {
        "apiVersion": API_VERSION,
        "kind": "Capacity",
        "pod": {"namespace": namespace, "name": name},
        "request": asked(pod, request, state.claims),
        "invalid": request.message if isinstance(request, InvalidRequest) else None,
        **counted,
        "notModelled": not_modelled(pod, state.claims),
        "warnings": warnings(pod, request, state, config.resource_names()),
    }


def _counted(
    request: GpuRequest, needs: PodNeeds, state: ClusterState, config: Configuration, cluster: Snapshot
) -> dict[str, Any]:
    """The counts in the cluster as the pod sees it."""
    sizing = config.sizing()
    in_tree = _InTree(InTreeNodes(state.objects, sizing.resources, state.infos, state.claims), needs)
    # Nodes that take equally many copies: the first by name represents the others.
    groups: dict[Hashable, tuple[Vessel, list[str]]] = {}
    for name, node in sorted(cluster.nodes.items()):
        vessel = Vessel.of(node, in_tree.most(name), request, sizing)
        key = node.state, vessel.rooms, in_tree.key(name)
        groups.setdefault(key, (vessel, []))[1].append(name)
    alike = list(groups.values())
    fills = fill_all([vessel for vessel, _ in alike], request, sizing, cluster)
    full = {}
    for (vessel, _), fill in zip(alike, fills, strict=True):
        # A node without limit, or without a GPU, stays as it is.
        node = vessel.node
        held = replace(fill, copies=0) if fill.copies >= NO_LIMIT else fill
        full[node.info.name] = sizing.resolved(filled(node, request, held, sizing))
    decision = filter_nodes(request, build_snapshot(full, 1), sizing.policy)
    codes = decision.verdict[decision.snapshot.state_of[:-1]].tolist()
    refused = []
    counts: dict[str, tuple[int | None, str | None]] = {}
    gpus: dict[str, int] = {}
    for (vessel, names), fill, code in zip(alike, fills, codes, strict=True):
        name = names[0]
        count, limit = None, None
        if fill.copies < NO_LIMIT:
            last, there = in_tree.refusal(name, fill.copies), in_tree.full(name, fill.copies)
            # Without a refusal, the pod asks for something that is not modelled.
            if code != FITS or last is not None:
                refused.append(Refused(full[name], request, code, last, there, len(names)))
                count, limit = fill.copies, refused[-1].reason
        counts.update((name, (count, limit)) for name in names)
        gpus.update((name, gpus_used(vessel.node, request, fill)) for name in names)
    first = nearest(refused, decision, needs, in_tree.ours)
    numbers = [count for count, _ in counts.values()]
    order = sorted(
        counts.items(), key=lambda item: (-(NO_LIMIT if item[1][0] is None else item[1][0]), item[0])
    )
    nothing = None if alike else NO_NODES
    return {
        "total": None if None in numbers else sum(count or 0 for count in numbers),
        "gpus": sum(gpus.values()),
        "nodes": [
            {"node": name, "count": count, "gpus": gpus[name], "limit": limit}
            for name, (count, limit) in order
        ],
        "next": {
            "node": first.node.info.name if first is not None else None,
            "reason": first.reason if first is not None else nothing,
            "nearestMiss": miss_of(first, decision) if first is not None else None,
        },
    }


class _InTree:
    """How many copies of a pod kube-scheduler's own filters let a node take, and their answer to the next."""

    def __init__(self, nodes: InTreeNodes, needs: PodNeeds) -> None:
        self.ours = nodes.ours(needs)
        self._nodes = nodes
        self._needs = needs
        self._refused: Mapping[str, InTreeRejection] = nodes.refused(needs)
        self._most: dict[Hashable, int] = {}
        self._counted = [name for name in needs.requests if name not in self.ours]

    def key(self, name: str) -> Hashable:
        """Differs between nodes that take a different number, or refuse in other words."""
        return self._refused.get(name), self._free(self._nodes.facts(name))

    def most(self, name: str) -> int:
        """How many copies these filters let a node take; NO_LIMIT for one without a Node object."""
        if name in self._refused:
            return 0
        facts = self._nodes.facts(name)
        if facts is None:
            return NO_LIMIT
        key = self._free(facts)
        if key not in self._most:
            # Once a copy is refused, all later ones are; the places for pods bound the search.
            places = int(facts.allocatable.get("pods", 0)) - facts.pod_count
            self._most[key] = bisect_left(
                range(min(NO_LIMIT, max(0, places))),
                True,
                key=lambda copies: self.refusal(name, copies) is not None,
            )
        return self._most[key]

    def refusal(self, name: str, copies: int) -> InTreeRejection | None:
        """Their answer to one more beside so many copies."""
        full = self.full(name, copies)
        if full is None:
            return self._refused.get(name)
        return intree_rejection(self._needs, full, ignore_resources=self.ours)

    def full(self, name: str, copies: int) -> NodeFacts | None:
        """The node with so many copies."""
        facts = self._nodes.facts(name)
        return with_pods(facts, self._needs.requests, copies) if facts is not None else None

    def _free(self, facts: NodeFacts | None) -> Hashable:
        if facts is None:
            return None
        return (
            facts.allocatable.get("pods", 0) - facts.pod_count,
            *(facts.allocatable.get(name, 0) - facts.requested.get(name, 0) for name in self._counted),
            # The answer also says whether too little is free for now or for good.
            *(facts.allocatable.get(name, 0) for name in self._counted),
        )
