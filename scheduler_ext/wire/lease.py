"""Leases ``coordination.k8s.io/v1``: the holder of a leadership."""

from dataclasses import dataclass
from typing import Any

import msgspec

from scheduler_ext.wire.decoding import decode_answer
from scheduler_ext.wire.kube import KubeStruct, ObjectMeta


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
    """A Lease that will be written again; ``whole`` has also the fields of other writers."""

    spec: LeaseSpec
    version: str
    whole: dict[str, Any]


def read_lease(body: bytes) -> HeldLease:
    """A Lease from the API server. Raises ClusterError naming the field."""
    lease = decode_answer(Lease, body)
    version = (lease.metadata.resource_version if lease.metadata else None) or ""
    return HeldLease(lease.spec or LeaseSpec(), version, msgspec.json.decode(body))


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
