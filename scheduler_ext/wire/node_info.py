"""Nodes for decisions, from a Node object, its report and its pods."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from scheduler_ext.core.cache.device_index import DeviceIndex
from scheduler_ext.core.cache.ledger import NodePods
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.intree import NodeFacts, Taint
from scheduler_ext.core.node import node_labels
from scheduler_ext.core.node.as_new import as_template
from scheduler_ext.core.node.dra_join import joined
from scheduler_ext.core.node.estimate import (
    MAX_COUNT,
    Estimate,
    caps_from_labels,
    estimate_from_labels,
    shared_by_name,
)
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames, vendor_of
from scheduler_ext.wire import kube
from scheduler_ext.wire.cpu import allocatable_cpu_milli
from scheduler_ext.wire.kube import strings
from scheduler_ext.wire.pod.held_spec import held_spec
from scheduler_ext.wire.pod.pod_amounts import pod_amounts, quantities

SHARE_NODE_LABEL = "gpu.scheduler-ext.io/sharing"
_UNKNOWN = canonical_model("unknown", vendor="nvidia")
# Taints of a node that is about to be removed (cluster-autoscaler; Karpenter from 1.0 on, and before). A node
# that is only a DeletionCandidate stays if a pod lands there.
DELETION_TAINTS = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption")
# Of the Nodes with which cluster-autoscaler simulates a node group (simulator/node_info_utils.go).
TEMPLATE_LABEL = "cluster-autoscaler.kubernetes.io/template-node"


def node_record(node: kube.NodeObject, resources: ResourceNames) -> NodeRecord:
    """The GPU part of a Node object. Raises QuantityError naming the resource for an unreadable amount."""
    metadata, status = node.metadata or kube.ObjectMeta(), node.status or kube.NodeStatus()
    taints = (node.spec or kube.NodeSpec()).taints or ()
    labels = strings(metadata.labels)
    allocatable = _counts(status.allocatable, resources.is_gpu)
    stated = _counts(status.capacity, resources.is_gpu)
    capacity = stated or allocatable
    share_node = labels.get(SHARE_NODE_LABEL) == "memory"
    estimate = estimate_from_labels(labels, capacity) or _bare_estimate(labels, capacity, resources)
    if estimate is None and share_node:
        # No device plugin runs there: its GPUs are not counted before the first report.
        estimate = Estimate("nvidia", _UNKNOWN, 0)
    if estimate is not None:
        estimate = shared_by_name(estimate, capacity)
    return NodeRecord(
        uid=metadata.uid or None,
        allocatable=allocatable,
        estimate=estimate,
        caps=caps_from_labels(labels),
        share_node=share_node,
        spot=node_labels.is_spot(labels),
        value=node_labels.stated_value(node_labels.value_text(labels, strings(metadata.annotations))),
        # An autoscaler's taint comes before the deletion.
        changing=node_labels.change_in_progress(labels)
        or metadata.deletion_timestamp is not None
        or any(taint.key in DELETION_TAINTS for taint in taints),
        advertised=(stated.get(resources.share), allocatable.get(resources.share)),
        cpu_milli=allocatable_cpu_milli(status.allocatable),
        pool=node_labels.node_pool(labels),
        agent_label=node_labels.agent_label(labels),
        has_nvidia=any(count > 0 and name.startswith(node_labels.NVIDIA) for name, count in capacity.items()),
        capacity=capacity,
        handed_out_by=node_labels.handed_out_by(labels),
        one_replica=node_labels.one_replica(labels),
        failed_change=node_labels.failed_change(labels),
        fraction=node_labels.fraction(labels),
        uncounted=_counts(status.allocatable, resources.looks_like_gpu),
    )


def node_info(
    name: str,
    node: kube.NodeObject | None,
    report: Report | None,
    pods: Sequence[BoundPod],
    resources: ResourceNames,
    index: DeviceIndex | None = None,
) -> NodeInfo:
    """The known state of a node. Without a Node object nothing limits it; without a report, its slices in
    `index` or its labels are used. Raises QuantityError naming the resource for an unreadable amount."""
    devices = index.node(name) if index is not None else None
    claims = index.claims_on(name) if index is not None else ()
    if node is None:
        if devices is not None:
            report, devices = joined(report, devices)
        freshness = "Fresh" if report else "Missing"
        return NodeInfo(
            name, report=report, freshness=freshness, pods=tuple(pods), dra=devices, claims=claims
        )
    return node_record(node, resources).info(
        name, report, NodePods(tuple(pods)), devices=devices, claims=claims
    )


def with_node(info: NodeInfo, node: kube.NodeObject, resources: ResourceNames) -> NodeInfo:
    """The same node with this Node object's labels and allocatable, and its previous report and holdings. An
    unknown one that is an autoscaler's template is the new node that it stands for."""
    known = info.report is not None or info.estimate is not None
    freshness = info.freshness if known else "Fresh"
    pods = NodePods(info.pods, info.assumed, info.nominated, info.planned)
    record = node_record(node, resources)
    made = record.info(
        info.name,
        info.report,
        pods,
        freshness,
        info.cpu_elsewhere_milli,
        info.dra,
        info.claims,
        allow_unreported=info.by_allocatable,
    )
    labels = (node.metadata or kube.ObjectMeta()).labels or {}
    return as_template(made, resources) if not known and TEMPLATE_LABEL in labels else made


def _counts(amounts: kube.Quantities | None, counted: Callable[[str], bool]) -> dict[str, int]:
    """These resources of a resource list as whole numbers."""
    # Kubernetes' own resources have no domain.
    mine = {name: raw for name, raw in (amounts or {}).items() if "/" in name and counted(name)}
    return {name: int(amount) for name, amount in quantities(mine).items()}


def _bare_estimate(
    labels: Mapping[str, str], capacity: dict[str, int], resources: ResourceNames
) -> Estimate | None:
    """A device plugin without labels of GPUs: a number of an unknown model, or only MIG instances. An
    administrator may state their memory."""
    has_mig = any(name.startswith(MIG_PREFIX) and count > 0 for name, count in capacity.items())
    mig = "mixed" if has_mig else "none"
    for name in resources.whole:
        if (count := capacity.get(name, 0)) > 0:
            vendor = vendor_of(name) or "nvidia"
            model = canonical_model("unknown", vendor=vendor)
            memory_mib = node_labels.stated_memory_mib(labels)
            return Estimate(vendor, model, min(count, MAX_COUNT), memory_mib, mig_strategy=mig)
    if has_mig:
        return Estimate("nvidia", _UNKNOWN, 0, mig_strategy=mig)
    return None


def node_constraints(node: kube.NodeObject) -> NodeFacts:
    """The fields of a Node that kube-scheduler's own filters compare, except amounts, which are left empty.
    Labels are interned, because thousands of nodes have the same."""
    metadata, spec = node.metadata or kube.ObjectMeta(), node.spec or kube.NodeSpec()
    return NodeFacts(
        name=metadata.name or "",
        labels={sys.intern(key): sys.intern(value) for key, value in strings(metadata.labels).items()},
        taints=tuple(Taint(t.key or "", t.value or "", t.effect or "") for t in spec.taints or ()),
        unschedulable=bool(spec.unschedulable),
        version=metadata.resource_version or "",
    )


def node_facts(node: kube.NodeObject, pods: Sequence[kube.Pod]) -> NodeFacts:
    """A node as kube-scheduler's own filters see it, with the pods that hold resources there. Raises
    QuantityError naming the resource for an unreadable amount."""
    status = node.status or kube.NodeStatus()
    requested: dict[str, Fraction] = {}
    for pod in pods:
        for name, amount in pod_amounts(held_spec(pod)).items():
            requested[name] = requested.get(name, Fraction(0)) + amount
    return replace(
        node_constraints(node),
        allocatable=quantities(status.allocatable),
        requested=requested,
        pod_count=len(pods),
    )
