"""The meaning of a path of a Kubernetes API: a collection, a namespace in it, an object, a subresource."""

from __future__ import annotations

import re
from dataclasses import dataclass

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
GPU_NODES = "/apis/gpu.scheduler-ext.io/v1alpha1/gpunodes"
GPU_RESERVATIONS = "/apis/gpu.scheduler-ext.io/v1alpha1/gpureservations"
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
NAMESPACES = "/api/v1/namespaces"
LEASES = "/apis/coordination.k8s.io/v1/leases"

_PATH = re.compile(
    r"(?P<root>/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<resource>[^/]+)"
    r"(?:/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?)?"
)


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed path; `collection` is the path of all namespaces' objects, such as /api/v1/pods."""

    collection: str
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None


def target(path: str) -> Target | None:
    """The parsed path, or None if it is no resource of an API."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    collection = f"{found['root']}/{found['resource']}"
    return Target(collection, found["namespace"], found["name"], found["subresource"])
