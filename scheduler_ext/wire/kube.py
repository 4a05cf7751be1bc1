"""The parts of Kubernetes objects this extender reads, as Go's JSON decoder would take them.

null means absent for every field, unknown fields are skipped, and of duplicate keys the last wins (msgspec
does both). Quantities stay undecoded text until somebody asks for one, because the API accepts strings and
bare numbers alike and most are never looked at.
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
    """Base of all: camelCase keys, no cycles for the collector to look for; what is null is not written."""


class ObjectMeta(KubeStruct):
    """ObjectMeta of Kubernetes' API, as far as it is read."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: Strings | None = None
    annotations: Strings | None = None
    deletion_timestamp: str | None = None
    creation_timestamp: str | None = None
    resource_version: str | None = None


class ResourceRequirements(KubeStruct):
    """ResourceRequirements of Kubernetes' API, as far as it is read."""

    requests: Quantities | None = None
    limits: Quantities | None = None
    claims: list[Raw] | None = None


class ContainerPort(KubeStruct):
    """ContainerPort of Kubernetes' API, as far as it is read."""

    host_port: Int32 | None = None


class Container(KubeStruct):
    """Container of Kubernetes' API, as far as it is read."""

    name: str | None = None
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    ports: list[ContainerPort] | None = None


class Toleration(KubeStruct):
    """Toleration of Kubernetes' API, as far as it is read."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Requirement(KubeStruct):
    """Requirement of Kubernetes' API, as far as it is read."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class NodeSelectorTerm(KubeStruct):
    """NodeSelectorTerm of Kubernetes' API, as far as it is read."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(KubeStruct):
    """NodeSelector of Kubernetes' API, as far as it is read."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class NodeAffinity(KubeStruct):
    """NodeAffinity of Kubernetes' API, as far as it is read."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[Raw] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinity(KubeStruct):
    """PodAffinity of Kubernetes' API, as far as it is read."""

    required: list[Raw] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[Raw] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(KubeStruct):
    """Affinity of Kubernetes' API, as far as it is read."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(KubeStruct):
    """TopologySpreadConstraint of Kubernetes' API, as far as it is read."""

    when_unsatisfiable: str | None = None


class PodSpec(KubeStruct):
    """PodSpec of Kubernetes' API, as far as it is read."""

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
    """PodCondition of Kubernetes' API, as far as it is read."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class PodStatus(KubeStruct):
    """PodStatus of Kubernetes' API, as far as it is read."""

    phase: str | None = None
    conditions: list[PodCondition] | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None


class Pod(KubeStruct):
    """Pod of Kubernetes' API, as far as it is read."""

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Taint(KubeStruct):
    """Taint of Kubernetes' API, as far as it is read."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpec(KubeStruct):
    """NodeSpec of Kubernetes' API, as far as it is read."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(KubeStruct):
    """NodeStatus of Kubernetes' API, as far as it is read."""

    capacity: Quantities | None = None
    allocatable: Quantities | None = None


class Node(KubeStruct):
    """Node of Kubernetes' API, as far as it is read."""

    metadata: ObjectMeta | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


def read_node(body: bytes) -> Node:
    """A Node as the API server gives it. Raises ClusterError."""
    try:
        return msgspec.json.decode(body, type=Node)
    except msgspec.MsgspecError as error:
        raise ClusterError(f"a Node that is none: {error}") from None


def quantity_text(raw: Raw) -> str:
    """A quantity as text, whether it was sent as a string or as a bare number; null is 0, as in Go.

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
