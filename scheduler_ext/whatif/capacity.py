"""How many more of a pod a cluster takes, node by node, and what refuses the next one."""

from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from scheduler_ext.core.cache.device_index import DeviceIndex
from scheduler_ext.core.cycle.cycle import FITS, filter_nodes
from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.dra.published import TEMPLATE_PREFIX, claim_title
from scheduler_ext.core.framework.refusal import INVALID_REQUEST
from scheduler_ext.core.intree import NO_NODES, InTreeRejection, NodeFacts, PodNeeds, intree_rejection
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.explain.advice import withdrawn
from scheduler_ext.explain.explain import API_VERSION, needs_of, request_of, request_values
from scheduler_ext.explain.ineffective import warnings
from scheduler_ext.explain.intree_nodes import InTreeNodes, with_pods
from scheduler_ext.explain.nearest import RefusingNode, miss_of, nearest
from scheduler_ext.explain.sentences import listed
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.whatif.copies import NO_LIMIT, Vessel, fill_all, filled, gpus_used
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.pod.pod_claims import (
    named_claims,
    namespace_of,
    with_claims_to_be_made,
    without_named_claims,
)
from scheduler_ext.wire.pod.pod_identity import pod_name, pod_priority
from scheduler_ext.wire.pod.pod_needs import not_modelled

# The most pods of one claim (k8s.io/api/resource, ResourceClaimReservedForMaxSize), and the limit in words.
_MOST_OF_A_CLAIM: Final = 256
_CLAIM_IS_FULL: Final = f"a ResourceClaim serves {_MOST_OF_A_CLAIM} pods at most"


def capacity(pod: kube.Pod, state: ClusterState, config: Configuration) -> dict[str, Any]:
    """The Capacity of a cluster for a pod, as plain JSON values: nodes with most first, then by name. A count
    is null, and so is the total, where no known limit applies. Raises PodError for the pod, InventoryError
    for an object of the inventory, naming the field that cannot be read."""
    pod = _another(pod, state.claims)
    request = request_of(pod, config, state.claims)
    namespace, _, name = pod_name(pod).partition("/")
    notes: list[str] = []
    if isinstance(request, InvalidRequest):
        reason = INVALID_REQUEST.text
        counted: dict[str, Any] = {
            "total": 0,
            "gpus": 0,
            "nodes": [{"node": name, "count": 0, "gpus": 0, "limit": reason} for name in sorted(state.infos)],
            "next": {"node": None, "reason": reason, "nearestMiss": None},
        }
    else:
        sizing = config.sizing()
        nodes = InTreeNodes(state.objects, sizing.resources, state.infos, state.claims)
        seen = state.snapshot_for(state.waiting_uid(pod), pod_priority(pod), sizing)
        wanted = _CountedPod(request, needs_of(pod, state.claims))
        counted = _counted(wanted, nodes, sizing, seen)
        if named := named_claims(pod):
            alone = without_named_claims(pod)
            own = request_of(alone, config, state.claims)
            assert isinstance(own, GpuRequest)
            sharing = _SharedClaims(namespace, named, state.claims)
            more = _CountedPod(own, needs_of(alone, state.claims))
            counted = _counted_sharing(counted, wanted, more, sharing, nodes, sizing, seen)
            notes = sharing.notes()
        notes += [text for ask in request.units for text in withdrawn(ask.resource, seen)]
    return {
        "apiVersion": API_VERSION,
        "kind": "Capacity",
        "pod": {"namespace": namespace, "name": name},
        "request": request_values(pod, request, state.claims),
        "invalid": request.message if isinstance(request, InvalidRequest) else None,
        **counted,
        "notModelled": not_modelled(pod, state.claims),
        "warnings": [*notes, *warnings(pod, request, state, config.resource_names())],
    }


def _another(pod: kube.Pod, claims: DeviceIndex | None) -> kube.Pod:
    """Another pod like this one, which gets claims of its own. Where a template is not known, the claim that
    was made from it says the same, as long as it waits."""
    if claims is None:
        return pod
    namespace = namespace_of(pod)

    def waits_for_unknown(template: str, name: str) -> bool:
        made = claims.claim(namespace, name)
        known = claims.claim(namespace, TEMPLATE_PREFIX + template)
        return known is None and made is not None and made.devices is None

    return with_claims_to_be_made(pod, waits_for_unknown)


class _CountedPod(NamedTuple):
    """What each pod asks."""

    request: GpuRequest
    needs: PodNeeds


class _SharedClaims:
    """The claims that all of these pods name: the first one gets their devices."""

    def __init__(self, namespace: str, names: Sequence[str], index: DeviceIndex | None) -> None:
        claims = {name: index.claim(namespace, name) if index is not None else None for name in names}
        reserved = (len(claim.pods) for claim in claims.values() if claim is not None)
        self.most = max(0, _MOST_OF_A_CLAIM - max(reserved, default=0))
        waiting = [name for name, claim in claims.items() if claim is None or claim.devices is None]
        self._titles = [claim_title(namespace, name) for name in waiting]
        hosts = index.hosts(namespace, waiting, {}) if index is not None else ()
        supplies = index.supplies if index is not None else {}
        # Devices that several nodes reach tie the pods to none of them.
        self.on_one_node = bool(waiting) and not any(
            supplies[name].in_all for each in hosts for name in each.resources
        )

    def notes(self) -> list[str]:
        """What a reader of the counts needs to know."""
        if not self._titles:
            return []
        note = f"the pods share the devices of {listed(self._titles, 'and')}, which the first one gets"
        return [
            f"{note}; all go to its node, so the total is that of the best one" if self.on_one_node else note
        ]


def _counted_sharing(
    first: dict[str, Any],
    wanted: _CountedPod,
    more: _CountedPod,
    sharing: _SharedClaims,
    nodes: InTreeNodes,
    sizing: Sizing,
    cluster: Snapshot,
) -> dict[str, Any]:
    """The counts of pods that share claims: `first` are those if each had claims of its own, and `more` is
    what a pod asks beside the shared ones."""
    taking = [each["node"] for each in first["nodes"] if each["count"] != 0]
    vessels = [Vessel.of(cluster.nodes[name], 1, wanted.request, sizing) for name in taking]
    full, gpus = {}, {}
    for name, vessel, fill in zip(
        taking, vessels, fill_all(vessels, wanted.request, sizing, cluster), strict=True
    ):
        held = replace(fill, copies=0) if fill.copies >= NO_LIMIT else fill
        full[name] = sizing.resolved(filled(vessel.node, wanted.request, held, sizing))
        gpus[name] = gpus_used(vessel.node, wanted.request, fill)
        nodes.change(name, wanted.needs.requests, 1)
    others = _counted(more, nodes, sizing, build_snapshot(full, 1, cluster))
    found = [each for each in first["nodes"] if each["count"] == 0]
    for each in others["nodes"]:
        name, count = each["node"], NO_LIMIT if each["count"] is None else 1 + each["count"]
        limit = each["limit"] if count <= sharing.most else _CLAIM_IS_FULL
        count = min(count, sharing.most)
        found.append({"node": name, "count": count, "gpus": gpus[name] + each["gpus"], "limit": limit})
    found.sort(key=lambda each: (-each["count"], each["node"]))
    placed = found[:1] if sharing.on_one_node else found
    return {
        "total": min(sharing.most, sum(each["count"] for each in placed)),
        "gpus": sum(each["gpus"] for each in placed),
        "nodes": found,
        "next": others["next"] if taking else first["next"],
    }


def _counted(wanted: _CountedPod, nodes: InTreeNodes, sizing: Sizing, cluster: Snapshot) -> dict[str, Any]:
    """The counts in the cluster as the pod sees it."""
    request, needs = wanted
    in_tree = _InTree(nodes, needs)
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
        copies, count, limit = fill.copies, None, None
        if code == FITS and (copies >= NO_LIMIT or in_tree.refusal(name, copies) is None):
            # The pod asks for something that is not modelled.
            copies = in_tree.supplied(name)
        if copies < NO_LIMIT:
            last, there = in_tree.refusal(name, copies), in_tree.full(name, copies)
            refused.append(RefusingNode(full[name], request, code, last, there, len(names)))
            count, limit = copies, refused[-1].reason
        counts.update((name, (count, limit)) for name in names)
        gpus.update((name, gpus_used(vessel.node, request, fill)) for name in names)
    first = nearest(refused, decision, needs, in_tree.ours)
    numbers = [count for count, _ in counts.values()]
    order = sorted(
        counts.items(), key=lambda item: (-(NO_LIMIT if item[1][0] is None else item[1][0]), item[0])
    )
    nothing = None if alike else NO_NODES
    limits = [None if None in numbers else sum(count or 0 for count in numbers), nodes.most_in_all(needs)]
    return {
        "total": min((limit for limit in limits if limit is not None), default=None),
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

    def supplied(self, name: str) -> int:
        """How many copies the known devices of their claims let a node take; NO_LIMIT if none limits them."""
        facts = self._nodes.facts(name)
        there = facts.allocatable if facts is not None else {}
        names = (name for each in self._needs.claim_hosts for name in each.resources)
        return self.most(name) if any(each in there for each in names) else NO_LIMIT

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
