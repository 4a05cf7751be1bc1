"""Leases ``coordination.k8s.io/v1``: who leads."""

from __future__ import annotations

from scheduler_ext.wire.kube import KubeStruct, ObjectMeta


class LeaseSpec(KubeStruct):
    """LeaseSpec of Kubernetes' API, as far as it is read."""

    holder_identity: str | None = None


class Lease(KubeStruct):
    """Lease of Kubernetes' API, as far as it is read."""

    metadata: ObjectMeta | None = None
    spec: LeaseSpec | None = None
