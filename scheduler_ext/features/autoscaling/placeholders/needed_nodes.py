"""The new nodes that waiting pods need and that no autoscaler knows of: the pods are put on empty copies of
existing nodes, by the filters that would place them there."""

import hashlib
import json
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.placement import SharePlacement, Sizing, place
from scheduler_ext.core.intree import NodeFacts, PodNeeds, intree_rejection
from scheduler_ext.core.node.as_new import as_new
from scheduler_ext.core.node.holdings import holdings_of
from scheduler_ext.core.node.node import Node, NodeInfo, PendingPod
from scheduler_ext.core.node.node_labels import POOL_LABELS
from scheduler_ext.core.node.placed import with_pod
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.autoscaling import cure_of
from scheduler_ext.explain.intree_nodes import CPU, with_cpu
from scheduler_ext.extender.new_nodes import NewNodes
from scheduler_ext.features.autoscaling.startup_taints import TAINTS
from scheduler_ext.wire.pod.pod_claims import ClaimLookup
from scheduler_ext.wire.pod.pod_needs import not_modelled, pod_needs
from scheduler_ext.wire.redacted import read_redacted

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_KARPENTER = "karpenter.sh/nodepool"
_HOSTNAME = "kubernetes.io/hostname"
# Nodes in the affinity of one placeholder.
_MOST_HOSTNAMES = 200

# Labels that the nodes of a kind have, and their values.
_Labels = tuple[tuple[str, str], ...]


class RefusedPod(NamedTuple):
    """A waiting pod that the extender refused on every node that kube-scheduler offered."""

    waiting: PendingPod
    offered: Container[str]


@dataclass(frozen=True, slots=True)
class NeededNode:
    """A node that pods need, the first of them `pod`. `example` is an existing node of its kind, `labels` are
    those that an autoscaler has to give it, `amounts` all that it hands out, `cpu_milli` what its pods ask.
    `away` are hostnames of nodes that an autoscaler would take for suitable."""

    pod: PendingPod
    example: str
    labels: _Labels
    amounts: Mapping[str, int]
    cpu_milli: int
    away: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The same for the same need, in every extender."""
        return placeholder_name(self.pod.pod.uid, self.labels)


def placeholder_name(uid: str, labels: _Labels) -> str:
    """The name of the placeholder that a pod has for a node with these labels."""
    text = json.dumps([uid, labels])
    return f"gpu-placeholder-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


@dataclass(slots=True)
class _Bin:
    """A new node that is being filled. `starting`: an autoscaler has added it already."""

    needed: NeededNode
    info: NodeInfo
    constraints: object
    starting: bool


class PlaceholderPlanner:
    """Computes needed nodes from one state of the cluster. `facts` are the Nodes as kube-scheduler's own
    filters see them; `tries` count the placeholders of a pod, by its uid, that have brought no node: each
    further one asks for the next kind. `existing` are the names of present placeholders, which stay as they
    are while they are needed.

    A node with the startup taint is one that is no longer needed. Its placeholder has to go before the pods
    come: an autoscaler would add another node for what no longer fits there."""

    def __init__(
        self,
        snapshot: Snapshot,
        facts: Mapping[str, NodeFacts],
        new_nodes: NewNodes,
        sizing: Sizing,
        claims: ClaimLookup | None = None,
        tries: Mapping[str, int] | None = None,
        existing: Container[str] = (),
    ) -> None:
        self._snapshot = snapshot
        self._facts = facts
        self._new_nodes = new_nodes
        self._sizing = sizing
        self._claims = claims
        self._tries = tries or {}
        self._existing = existing
        self._bins: list[_Bin] = []
        self._starting = Counter(
            _labels(node) for node in facts.values() if any(taint.key in TAINTS for taint in node.taints)
        )

    def needed(self, refused: Sequence[RefusedPod], most: int) -> list[NeededNode]:
        """At most so many nodes: for pods that have a placeholder, then for the highest priorities and the
        longest waits."""
        asking = []
        for each in refused:
            needs = pod_needs(read_redacted(each.waiting.manifest), self._claims)
            kinds = self._curable(each, needs)
            if kinds and not self._is_taken(each.waiting.pod.request, needs):
                asking.append((each, needs, kinds))
        for each, needs, kinds in sorted(asking, key=self._urgency):
            if not self._put(each.waiting, needs, kinds):
                self._open(each.waiting, needs, kinds, most)
        found = [self._with_away(each.needed) for each in self._bins if not each.starting]
        return [each for each in found if each is not None]

    def _urgency(self, asking: tuple[RefusedPod, PodNeeds, dict[_Labels, str]]) -> tuple[bool, int, float]:
        pod = asking[0].waiting.pod
        exists = self._existing_kind(pod.uid, asking[2]) is not None
        return not exists, -pod.priority, pod.created_at or 0.0

    def _is_taken(self, request: GpuRequest | InvalidRequest, needs: PodNeeds) -> bool:
        """Whether some node has room by now, which kube-scheduler has yet to see."""
        fits, snapshot = filter_nodes(request, self._snapshot, self._sizing.policy).fits, self._snapshot
        ignored = _uncounted(needs)
        return bool(fits.any()) and any(
            fits[snapshot.state_at(name)]
            and intree_rejection(needs, with_cpu(facts, snapshot.nodes[name].info), ignore_resources=ignored)
            is None
            for name, facts in self._facts.items()
            if name in snapshot.nodes
        )

    def _existing_kind(self, uid: str, kinds: Iterable[_Labels]) -> _Labels | None:
        return next((labels for labels in kinds if placeholder_name(uid, labels) in self._existing), None)

    def _curable(self, refused: RefusedPod, needs: PodNeeds) -> dict[_Labels, str]:
        """An example of each kind that would take the pod, the least valuable first: of the nodes that were
        offered for it, or if none of these kinds would, of those that were not because they are full."""
        cures = self._new_nodes.cures(refused.waiting.pod.request, self._snapshot)
        names = sorted(name for name, cure in cures.items() if cure == "curable" and name in self._facts)
        examples = self._examples((name for name in names if name in refused.offered), needs)
        # Where kube-scheduler offers no node at all, an autoscaler sees that the pod needs one.
        offers_any = any(name in refused.offered for name in self._snapshot.nodes)
        if examples or not offers_any or not_modelled(read_redacted(refused.waiting.manifest), self._claims):
            return examples
        return self._examples((name for name in names if self._is_full(name, needs)), needs)

    def _examples(self, names: Iterable[str], needs: PodNeeds) -> dict[_Labels, str]:
        ignored = _uncounted(needs)
        examples: dict[_Labels, str] = {}
        for name in names:
            facts = with_cpu(self._facts[name], self._snapshot.nodes[name].info)
            labels = _labels(facts)
            if (
                labels
                and labels not in examples
                and cure_of("curable", needs, facts, None, ignored) == "curable"
            ):
                examples[labels] = name
        return dict(sorted(examples.items(), key=lambda item: (*self._cost(item[1]), item[0])))

    def _is_full(self, name: str, needs: PodNeeds) -> bool:
        """Whether kube-scheduler counts too few GPUs, too little of them or of CPU for a pod."""
        info = self._snapshot.nodes[name].info
        held = holdings_of(info, self._sizing.resources).requested
        return any(
            count - held[resource] < needs.requests.get(resource, 0)
            for resource, count in (info.allocatable or {}).items()
        ) or (
            intree_rejection(needs, with_cpu(self._facts[name], info), ignore_resources=_uncounted(needs))
            is not None
        )

    def _cost(self, name: str) -> tuple[float, bool]:
        """Of equal GPUs, a spot node is the cheaper one."""
        node = self._snapshot.nodes[name]
        values = self._sizing.policy.values
        each = max((node.info.gpu_value(slot.model, values) for slot in node.state.slots), default=0.0)
        return each * max(1, node.state.gpus), not node.info.spot

    def _put(self, waiting: PendingPod, needs: PodNeeds, kinds: Mapping[_Labels, str]) -> bool:
        """Put the pod on a node that others need already."""
        for each in self._bins:
            if (
                each.needed.labels in kinds
                and each.constraints == _constraints(needs)
                and self._fill(each, waiting)
            ):
                return True
        return False

    def _open(self, waiting: PendingPod, needs: PodNeeds, kinds: Mapping[_Labels, str], most: int) -> None:
        uid = waiting.pod.uid
        labels = self._existing_kind(uid, kinds) or list(kinds)[self._tries.get(uid, 0) % len(kinds)]
        starting = self._starting[labels] > 0
        if not starting and sum(not each.starting for each in self._bins) >= most:
            return
        example = kinds[labels]
        sizing = self._sizing
        copy = as_new(self._snapshot.nodes[example].info, sizing.resources, sizing.headroom_percent).least
        if copy is None or copy.allocatable is None:
            return
        amounts = {name: count for name, count in copy.allocatable.items() if count > 0}
        needed = NeededNode(waiting, example, labels, amounts, 0)
        opened = _Bin(needed, copy, _constraints(needs), starting)
        if amounts and self._fill(opened, waiting):
            self._bins.append(opened)
            self._starting[labels] -= starting

    def _fill(self, into: _Bin, waiting: PendingPod) -> bool:
        cpu_milli = into.needed.cpu_milli + waiting.pod.cpu_milli
        if into.info.cpu_milli is not None and cpu_milli > into.info.cpu_milli:
            return False
        found = place(into.info, waiting.pod.request, self._sizing)
        if not isinstance(found, SharePlacement):
            return False
        pod = replace(waiting.pod, devices=found.devices)
        into.info = with_pod(into.info, pod, self._sizing.resources)
        into.needed = replace(into.needed, cpu_milli=cpu_milli)
        return True

    def _with_away(self, needed: NeededNode) -> NeededNode | None:
        """With the nodes that have all that the new one would have, as an autoscaler counts; None where these
        cannot be left out: Karpenter takes no pod whose affinity names hostnames."""
        if needed.name in self._existing:
            # The node that it has brought looks free until its pods are there.
            return needed
        looks_free = [
            self._facts[name].labels.get(_HOSTNAME, "")
            for name, node in self._snapshot.nodes.items()
            if name in self._facts
            and needed.labels == _labels(self._facts[name])
            and self._looks_free(node, needed.amounts)
        ]
        if not looks_free:
            return needed
        by_karpenter = any(key == _KARPENTER for key, _ in needed.labels)
        if by_karpenter or len(looks_free) > _MOST_HOSTNAMES or not all(looks_free):
            return None
        return replace(needed, away=tuple(sorted(looks_free)))

    def _looks_free(self, node: Node, amounts: Mapping[str, int]) -> bool:
        held = holdings_of(node.info, self._sizing.resources).requested
        allocatable = node.info.allocatable or {}
        return all(allocatable.get(name, 0) - held[name] >= count for name, count in amounts.items())


def _labels(facts: NodeFacts) -> _Labels:
    """The labels by which an autoscaler tells the kinds of nodes apart: the first pool, and the type."""
    pool = next((key for key in POOL_LABELS if key in facts.labels), None)
    keys = dict.fromkeys(key for key in (pool, _INSTANCE_TYPE) if key is not None and key in facts.labels)
    return tuple((key, facts.labels[key]) for key in keys)


def _uncounted(needs: PodNeeds) -> frozenset[str]:
    """The resources that the facts of Nodes do not have."""
    return frozenset({*needs.requests, "pods"}) - {CPU}


def _constraints(needs: PodNeeds) -> object:
    return frozenset(needs.node_selector.items()), needs.required_terms, frozenset(needs.tolerations)


def placeholder_affinity(needed: NeededNode, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The node affinity of a placeholder: that of the pod (`spec`), on nodes of the kind, and on none of
    `away`."""
    here = [{"key": key, "operator": "In", "values": [value]} for key, value in needed.labels]
    if needed.away:
        here.append({"key": _HOSTNAME, "operator": "NotIn", "values": list(needed.away)})
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    own: list[dict[str, Any]] = required.get("nodeSelectorTerms") or [{}]
    terms = [{**term, "matchExpressions": [*(term.get("matchExpressions") or ()), *here]} for term in own]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
