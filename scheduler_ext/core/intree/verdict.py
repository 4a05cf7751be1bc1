"""The verdict of kube-scheduler's own filters: the first plugin that refuses the node speaks, in the order
and with the texts of kube-scheduler 1.36. Host ports, volumes, topology spread and pod affinity are left
out."""

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final, NamedTuple

from scheduler_ext.core.intree.affinity import (
    NodeSelectorTerm,
    PreferredTerm,
    Taint,
    Toleration,
    first_untolerated,
)
from scheduler_ext.core.intree.resource_fit import DEVICE_CLASS_PREFIX, shortages

# kube-scheduler's message for a cluster without nodes (pkg/scheduler/schedule_one.go, ErrNoNodesAvailable).
NO_NODES: Final = "no nodes available to schedule pods"
OTHER_NODES: Final = "node(s) didn't match Pod's node affinity/selector"
NO_DEVICES: Final = "cannot allocate all claims"
_CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", value="", effect="NoSchedule")


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as the in-tree filters see it. allocatable (with "pods") and requested, the sum of the effective
    requests of pod_count pods, are in each resource's own unit (cores, bytes, devices). `version` is the
    resourceVersion that has these labels."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Mapping[str, Fraction] = field(default_factory=dict)
    requested: Mapping[str, Fraction] = field(default_factory=dict)
    pod_count: int = 0
    version: str = field(default="", compare=False)


class ClaimHosts(NamedTuple):
    """The nodes that lack devices which a pod asks through claims, now and as new nodes. `needed` is for
    people. `resources` stand for these devices where they are counted: a pod takes one of each. A node that
    offers one of the `extended` resources without claims lacks nothing."""

    needed: str
    lacking: frozenset[str]
    as_new: frozenset[str]
    resources: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()

    def admit(self, node: str, offered: Collection[str] = (), *, as_new: bool = False) -> bool:
        """Whether a node may have the devices, or has what it offers in their place."""
        lacking = self.as_new if as_new else self.lacking
        return node not in lacking or any(name in offered for name in self.extended)


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """A pod as the in-tree plugins see it; requests are its effective ones. required_terms is None without
    required node affinity; an empty tuple is an affinity no node can meet. preferred_terms only score.
    claim_nodes are those of the devices that its claims hold. A node is admitted by each of claim_hosts."""

    node_name: str | None
    node_selector: Mapping[str, str]
    required_terms: tuple[NodeSelectorTerm, ...] | None
    tolerations: tuple[Toleration, ...]
    requests: Mapping[str, Fraction]
    preferred_terms: tuple[PreferredTerm, ...] = ()
    claim_nodes: tuple[str, ...] = ()
    claim_hosts: tuple[ClaimHosts, ...] = ()


@dataclass(frozen=True, slots=True)
class InTreeRejection:
    """Why a plugin of kube-scheduler refuses a node, with kube-scheduler's text; of several short resources,
    reason, needed and have are joined by ", ". resolvable says whether kube-scheduler would try preemption
    there. needed and have are for people. alone is False if a later filter would refuse the node too."""

    plugin: str
    reason: str
    resolvable: bool = False
    needed: str | None = None
    have: str | None = None
    alone: bool = True


def needs_key(needs: PodNeeds) -> tuple[Hashable, ...]:
    """Equal for pods that those filters do not distinguish."""
    return (*constraints_key(needs), frozenset(needs.requests.items()))


def constraints_key(needs: PodNeeds) -> tuple[Hashable, ...]:
    """Equal for pods that those filters do not distinguish, except by amounts."""
    return (
        needs.node_name,
        frozenset(needs.node_selector.items()),
        needs.required_terms,
        needs.tolerations,
        needs.claim_nodes,
        needs.claim_hosts,
    )


def intree_rejection(
    pod: PodNeeds, node: NodeFacts, *, ignore_resources: frozenset[str]
) -> InTreeRejection | None:
    """Return what the first refusing filter of kube-scheduler says, or None when all let the pod pass.
    kube-scheduler does not count ignore_resources, such as those with ignoredByScheduler."""
    for i, refuses in enumerate(_PLUGINS):
        rejection = refuses(pod, node)
        if rejection is not None:
            # A cordon is a taint as well: one obstacle, not two.
            taints = tuple(taint for taint in node.taints if taint.key != _CORDON.key)
            rest = replace(node, taints=taints) if node.unschedulable else node
            others = any(later(pod, rest) for later in _PLUGINS[i + 1 :])
            alone = not others and _node_resources_fit(pod, node, ignore_resources) is None
            return rejection if alone else replace(rejection, alone=False)
    return _node_resources_fit(pod, node, ignore_resources)


def name_rejection(pod: PodNeeds, name: str) -> InTreeRejection | None:
    """Return kube-scheduler's verdict on a node that is known by name only, or None."""
    return _other_name(pod, name) or _without_devices(pod, name, ())


def _other_name(pod: PodNeeds, name: str) -> InTreeRejection | None:
    if pod.node_name and pod.node_name != name:
        return InTreeRejection(
            "NodeName", "node(s) didn't match the requested node name", needed=pod.node_name, have=name
        )
    elsewhere = [node for node in pod.claim_nodes if node != name]
    if elsewhere:
        text = "resourceclaim not available on the node"
        return InTreeRejection("DynamicResources", text, needed=", ".join(elsewhere), have=name)
    return None


def _without_devices(pod: PodNeeds, name: str, offered: Collection[str]) -> InTreeRejection | None:
    missing = [each.needed for each in pod.claim_hosts if not each.admit(name, offered)]
    return (
        InTreeRejection("DynamicResources", NO_DEVICES, needed=missing[0], have="none") if missing else None
    )


def _node_unschedulable(pod: PodNeeds, node: NodeFacts) -> InTreeRejection | None:
    if not node.unschedulable or first_untolerated([_CORDON], pod.tolerations) is None:
        return None
    return InTreeRejection("NodeUnschedulable", "node(s) were unschedulable", have=str(_CORDON))


def _taint_toleration(pod: PodNeeds, node: NodeFacts) -> InTreeRejection | None:
    taint = first_untolerated(node.taints, pod.tolerations)
    if taint is None:
        return None
    return InTreeRejection("TaintToleration", "node(s) had untolerated taint(s)", have=str(taint))


def _node_affinity(pod: PodNeeds, node: NodeFacts) -> InTreeRejection | None:
    for key, value in pod.node_selector.items():
        if node.labels.get(key) != value:
            return _affinity_mismatch(f"{key}={value}", _labels_text(node, [key]))
    terms = pod.required_terms
    fields = {"metadata.name": node.name}
    if terms is None or any(term.matches(node.labels, fields) for term in terms):
        return None
    keys = [requirement.key for term in terms for requirement in term.expressions]
    return _affinity_mismatch(" or ".join(filter(None, map(str, terms))) or None, _labels_text(node, keys))


def _node_resources_fit(
    pod: PodNeeds, node: NodeFacts, ignore_resources: frozenset[str]
) -> InTreeRejection | None:
    found = list(
        shortages(
            pod.requests,
            allocatable=node.allocatable,
            requested=node.requested,
            pod_count=node.pod_count,
            ignore_resources=ignore_resources,
        )
    )
    if not found:
        return None
    if all(shortage.is_by_claim for shortage in found):
        # Preemption takes no claim from the pods that it removes.
        return InTreeRejection(
            "DynamicResources",
            NO_DEVICES,
            needed=", ".join(f"{each.needed_text} {_class_of(each.resource)}" for each in found),
            have=", ".join(each.free_text for each in found),
        )
    found = [shortage for shortage in found if not shortage.is_by_claim]
    return InTreeRejection(
        plugin="NodeResourcesFit",
        reason=", ".join(shortage.reason for shortage in found),
        resolvable=all(shortage.is_resolvable for shortage in found),
        needed=", ".join(shortage.needed_text for shortage in found),
        have=", ".join(shortage.free_text for shortage in found),
    )


def _class_of(resource: str) -> str:
    return resource.removeprefix(DEVICE_CLASS_PREFIX).partition("?")[0]


def _labels_text(node: NodeFacts, keys: list[str]) -> str | None:
    present = dict.fromkeys(key for key in keys if key in node.labels)
    return ", ".join(f"{key}={node.labels[key]}" for key in present) or None


def _affinity_mismatch(needed: str | None, have: str | None) -> InTreeRejection:
    return InTreeRejection("NodeAffinity", OTHER_NODES, needed=needed, have=have)


_PLUGINS: Final[tuple[Callable[[PodNeeds, NodeFacts], InTreeRejection | None], ...]] = (
    _node_unschedulable,
    lambda pod, node: _other_name(pod, node.name),
    _taint_toleration,
    _node_affinity,
    lambda pod, node: _without_devices(
        pod, node.name, [name for name, amount in node.allocatable.items() if amount]
    ),
)
