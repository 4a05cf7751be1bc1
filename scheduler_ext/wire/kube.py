"""Kubernetes' objects, reduced to the fields that this extender reads, decoded like Go's JSON decoder. null
means absent for every field, unknown fields are skipped, and of duplicate keys the last wins (msgspec does
both). Quantities stay undecoded text until they are needed, because the API accepts strings and bare numbers
alike and most are never needed."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.wire.decoding import decode_answer

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Quantities = dict[str, Raw]
Strings = dict[str, str | None]


class KubeStruct(Struct, rename="camel", gc=False, omit_defaults=True):
    """Base of all: camelCase keys, no cycles for the garbage collector; null fields are not written."""


class Status(KubeStruct):
    """The API server's answer to a request that did not succeed."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None


class OwnerReference(KubeStruct):
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class ObjectMeta(KubeStruct):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: Strings | None = None
    annotations: Strings | None = None
    deletion_timestamp: str | None = None
    creation_timestamp: str | None = None
    resource_version: str | None = None
    owner_references: list[OwnerReference] | None = None


class Header(KubeStruct):
    """The fields that every object has."""

    kind: str | None = None
    api_version: str | None = None
    metadata: ObjectMeta | None = None


class ResourceRequirements(KubeStruct):
    requests: Quantities | None = None
    limits: Quantities | None = None
    claims: list[Raw] | None = None


class ContainerPort(KubeStruct):
    host_port: Int32 | None = None


class Container(KubeStruct):
    name: str | None = None
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    ports: list[ContainerPort] | None = None


class TolerationObject(KubeStruct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class RequirementObject(KubeStruct):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class NodeSelectorTermObject(KubeStruct):
    match_expressions: list[RequirementObject] | None = None
    match_fields: list[RequirementObject] | None = None


class NodeSelector(KubeStruct):
    node_selector_terms: list[NodeSelectorTermObject] | None = None


class PreferredSchedulingTerm(KubeStruct):
    weight: Int32 | None = None
    preference: NodeSelectorTermObject | None = None


class NodeAffinity(KubeStruct, rename="{}DuringSchedulingIgnoredDuringExecution".format):
    required: NodeSelector | None = None
    preferred: list[PreferredSchedulingTerm] | None = None


class PodAffinity(KubeStruct, rename="{}DuringSchedulingIgnoredDuringExecution".format):
    required: list[Raw] | None = None
    preferred: list[Raw] | None = None


class Affinity(KubeStruct):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(KubeStruct):
    when_unsatisfiable: str | None = None


class PodResourceClaim(KubeStruct):
    """A claim that a pod uses: of this name, or made from a template and named in the pod's status."""

    name: str | None = None
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(KubeStruct):
    """The PodGroup of a pod, from Kubernetes 1.36 on."""

    pod_group_name: str | None = None


class WorkloadReference(KubeStruct):
    """The group of a pod in a Workload, in Kubernetes 1.35."""

    name: str | None = None
    pod_group: str | None = None
    pod_group_replica_key: str | None = None


class PodSpec(KubeStruct):
    containers: list[Container | None] | None = None
    init_containers: list[Container | None] | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    node_selector: Strings | None = None
    priority: Int32 | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    affinity: Affinity | None = None
    tolerations: list[TolerationObject] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    overhead: Quantities | None = None
    resources: ResourceRequirements | None = None
    volumes: list[Raw] | None = None
    scheduling_gates: list[Raw] | None = None
    resource_claims: list[PodResourceClaim | None] | None = None
    active_deadline_seconds: Int64 | None = None
    scheduling_group: PodSchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None


class PodCondition(KubeStruct):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class ContainerRunning(KubeStruct):
    started_at: str | None = None


class TerminatedContainer(KubeStruct):
    exit_code: Int32 | None = None
    message: str | None = None
    finished_at: str | None = None
    container_id: str | None = msgspec.field(default=None, name="containerID")


class ContainerState(KubeStruct):
    running: ContainerRunning | None = None
    terminated: TerminatedContainer | None = None


class ContainerStatus(KubeStruct):
    name: str | None = None
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    allocated_resources: Quantities | None = None
    resources: ResourceRequirements | None = None


class ExtendedResourceClaimStatus(KubeStruct):
    """The claim through which DRA serves a pod's extended resources."""

    resource_claim_name: str | None = None


class ResourceClaimStatus(KubeStruct):
    """The claim that was made for one entry of a pod's claims; without a name if none was needed."""

    name: str | None = None
    resource_claim_name: str | None = None


class PodStatus(KubeStruct):
    phase: str | None = None
    conditions: list[PodCondition] | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None
    resource_claim_statuses: list[ResourceClaimStatus] | None = None
    container_statuses: list[ContainerStatus | None] | None = None
    init_container_statuses: list[ContainerStatus | None] | None = None
    allocated_resources: Quantities | None = None
    resources: ResourceRequirements | None = None


class Pod(KubeStruct):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Namespace(KubeStruct):
    metadata: ObjectMeta | None = None


class TaintObject(KubeStruct):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpec(KubeStruct):
    unschedulable: bool | None = None
    taints: list[TaintObject] | None = None


class NodeStatus(KubeStruct):
    capacity: Quantities | None = None
    allocatable: Quantities | None = None


class NodeObject(KubeStruct):
    metadata: ObjectMeta | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class LeaseSpec(KubeStruct):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(KubeStruct):
    metadata: ObjectMeta | None = None
    spec: LeaseSpec | None = None


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A Lease that will be written again; `whole` has also the fields of other writers."""

    spec: LeaseSpec
    version: str
    whole: dict[str, Any]


def read_lease(body: bytes) -> HeldLease:
    """A Lease from the API server. Raises ClusterError naming the field."""
    lease = decode_answer(Lease, body)
    version = (lease.metadata.resource_version if lease.metadata else None) or ""
    return HeldLease(lease.spec or LeaseSpec(), version, msgspec.json.decode(body))


def read_status(body: bytes) -> Status:
    """The status in an unsuccessful answer; the answer's text if it contains none."""
    try:
        return msgspec.json.decode(body, type=Status)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Status(message=body[:200].decode(errors="replace"))


def new_lease(namespace: str, name: str, spec: LeaseSpec) -> dict[str, Any]:
    """The body that creates a Lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": msgspec.to_builtins(spec),
    }


def renewed_lease(held: HeldLease, spec: LeaseSpec) -> dict[str, Any]:
    """The body that replaces a Lease if it is still at its version."""
    return held.whole | {"spec": (held.whole.get("spec") or {}) | msgspec.to_builtins(spec)}


read_node = partial(decode_answer, NodeObject)


def quantity_text(raw: Raw) -> str:
    """A quantity as text, from a string or a bare number; null is 0, as in Go. Raises QuantityError for
    anything else."""
    text = bytes(raw)
    if text[:1] == b'"':
        return msgspec.json.decode(text, type=str)
    if text == b"null":
        return "0"
    if text[:1] in b"-0123456789":
        return text.decode()
    raise QuantityError(f"expected a quantity (string or number), got `{text[:40].decode(errors='replace')}`")


def owner_uid(owners: list[OwnerReference] | None) -> str | None:
    """The uid of the Node that owns an object; None without such an owner."""
    return next((owner.uid for owner in owners or () if owner.kind == "Node"), None)


def node_owner(name: str, uid: str) -> dict[str, str]:
    """The ownerReference that makes an object a dependent of a Node."""
    return {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}


def strings(mapping: Strings | None) -> dict[str, str]:
    """Labels or annotations; a null value is an absent one."""
    if not mapping:
        return {}
    if None not in mapping.values():
        return mapping  # type: ignore[return-value]  # just checked
    return {key: value for key, value in mapping.items() if value is not None}


def listed(annotation: str) -> tuple[str, ...]:
    """The parts of an annotation that are separated by commas."""
    return tuple(part for part in map(str.strip, annotation.split(",")) if part)
