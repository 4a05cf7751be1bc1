"""Leases ``coordination.k8s.io/v1``: the holder of a leadership."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire.decoding import explained
from scheduler_ext.wire.kube import KubeStruct, ObjectMeta


class LeaseSpec(KubeStruct):
    """Kubernetes' LeaseSpec; only the fields that are read."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(KubeStruct):
    """Kubernetes' Lease; only the fields that are read."""

    metadata: ObjectMeta | None = None
    spec: LeaseSpec | None = None


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A Lease that will be written again: ``whole`` is the object as read, so that fields of other writers
    stay.
    """

    spec: LeaseSpec
    version: str
    whole: dict[str, Any]


def read_lease(body: bytes) -> HeldLease:
    """A Lease from the API server. Raises ClusterError naming the field."""
    try:
        lease = msgspec.json.decode(body, type=Lease)
        whole: dict[str, Any] = msgspec.json.decode(body)
    except msgspec.ValidationError as error:
        raise ClusterError(f"a Lease that cannot be read: {explained(error)}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ClusterError(f"a Lease that is none: {error}") from None
    version = (lease.metadata.resource_version if lease.metadata else None) or ""
    return HeldLease(lease.spec or LeaseSpec(), version, whole)


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
