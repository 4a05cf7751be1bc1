"""The rights that an execution needs, and which of them the user lacks."""

import json
from collections.abc import Iterable

from scheduler_ext.cluster.client.transport import JSON, Transport

RIGHTS = (
    "list nodes, pods, gpunodes.gpu.scheduler-ext.io and poddisruptionbudgets.policy",
    "get pods",
    "get and patch gpunodes.gpu.scheduler-ext.io",
    "create pods/eviction",
)
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def missing_rights(transport: Transport, namespaces: Iterable[str]) -> list[str]:
    """The rights to write that the API server would refuse now, in words. Raises ClusterError."""
    asked = [({"group": "gpu.scheduler-ext.io", "resource": "gpunodes", "verb": "patch"}, "patch gpunodes")]
    for namespace in sorted(namespaces):
        attributes = {"resource": "pods", "subresource": "eviction", "verb": "create", "namespace": namespace}
        asked.append((attributes, f"create pods/eviction in namespace {namespace}"))
    missing = []
    for attributes, words in asked:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = json.loads(transport.send("POST", _REVIEWS, review, JSON).body)
        if not answer["status"]["allowed"]:
            missing.append(words)
    return missing
