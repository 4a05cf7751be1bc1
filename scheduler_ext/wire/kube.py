"""The parts of Kubernetes objects that this extender reads, decoded like Go's JSON decoder.

null means absent for every field, unknown fields are skipped, and of duplicate keys the last wins (msgspec
does both). Quantities stay undecoded text until they are needed, because the API accepts strings and bare
numbers alike and most are never needed.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.request.quantity import QuantityError

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Quantities = dict[str, Raw]
Strings = dict[str, str | None]


class KubeStruct(Struct, rename="camel", gc=False, omit_defaults=True):
    """Base of all: camelCase keys, no cycles for the garbage collector; null fields are not written."""


class ObjectMeta(KubeStruct):
    """Kubernetes' ObjectMeta; only the fields that are read."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: Strings | None = None
    annotations: Strings | None = None
    deletion_timestamp: str | None = None
    creation_timestamp: str | None = None
    resource_version: str | None = None


class ResourceRequirements(KubeStruct):
    """Kubernetes' ResourceRequirements; only the fields that are read."""

    requests: Quantities | None = None
    limits: Quantities | None = None
    claims: list[Raw] | None = None


class ContainerPort(KubeStruct):
    """Kubernetes' ContainerPort; only the fields that are read."""

    host_port: Int32 | None = None


class Container(KubeStruct):
    """Kubernetes' Container; only the fields that are read."""

    name: str | None = None
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    ports: list[ContainerPort] | None = None


class Toleration(KubeStruct):
    """Kubernetes' Toleration; only the fields that are read."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Requirement(KubeStruct):
    """Kubernetes' Requirement; only the fields that are read."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class NodeSelectorTerm(KubeStruct):
    """Kubernetes' NodeSelectorTerm; only the fields that are read."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(KubeStruct):
    """Kubernetes' NodeSelector; only the fields that are read."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class NodeAffinity(KubeStruct):
    """Kubernetes' NodeAffinity; only the fields that are read."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[Raw] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinity(KubeStruct):
    """Kubernetes' PodAffinity; only the fields that are read."""

    required: list[Raw] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[Raw] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(KubeStruct):
    """Kubernetes' Affinity; only the fields that are read."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(KubeStruct):
    """Kubernetes' TopologySpreadConstraint; only the fields that are read."""

    when_unsatisfiable: str | None = None


class PodSpec(KubeStruct):
    """Kubernetes' PodSpec; only the fields that are read."""

    containers: list[Container | None] | None = None
    init_containers: list[Container | None] | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    node_selector: Strings | None = None
    priority: Int32 | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    overhead: Quantities | None = None
    resources: ResourceRequirements | None = None
    volumes: list[Raw] | None = None
    scheduling_gates: list[Raw] | None = None
    resource_claims: list[Raw] | None = None


class PodCondition(KubeStruct):
    """Kubernetes' PodCondition; only the fields that are read."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class PodStatus(KubeStruct):
    """Kubernetes' PodStatus; only the fields that are read."""

    phase: str | None = None
    conditions: list[PodCondition] | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None


class Pod(KubeStruct):
    """Kubernetes' Pod; only the fields that are read."""

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Taint(KubeStruct):
    """Kubernetes' Taint; only the fields that are read."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpec(KubeStruct):
    """Kubernetes' NodeSpec; only the fields that are read."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(KubeStruct):
    """Kubernetes' NodeStatus; only the fields that are read."""

    capacity: Quantities | None = None
    allocatable: Quantities | None = None


class Node(KubeStruct):
    """Kubernetes' Node; only the fields that are read."""

    metadata: ObjectMeta | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


def read_node(body: bytes) -> Node:
    """A Node from the API server. Raises ClusterError."""
    try:
        return msgspec.json.decode(body, type=Node)
    except msgspec.MsgspecError as error:
        raise ClusterError(f"a Node that is none: {error}") from None


def quantity_text(raw: Raw) -> str:
    """A quantity as text, from a string or a bare number; null is 0, as in Go.

    Raises QuantityError for anything else.
    """
    text = bytes(raw)
    if text[:1] == b'"':
        return msgspec.json.decode(text, type=str)
    if text == b"null":
        return "0"
    if text[:1] in b"-0123456789":
        return text.decode()
    raise QuantityError(f"expected a quantity (string or number), got `{text[:40].decode(errors='replace')}`")


def strings(mapping: Strings | None) -> dict[str, str]:
    """Labels or annotations; a null value is an absent one."""
    if not mapping:
        return {}
    if None not in mapping.values():
        return mapping  # type: ignore[return-value]  # just checked
    return {key: value for key, value in mapping.items() if value is not None}


Json = dict[str, Any]
