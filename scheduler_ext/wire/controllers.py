"""The workload of a pod: the object at the top of its chain of controllers."""

from collections.abc import Mapping
from typing import NamedTuple

from scheduler_ext.wire import kube
from scheduler_ext.wire.kube import strings

# Written by the Deployment controller, which names a ReplicaSet DEPLOYMENT-HASH
# (pkg/controller/deployment/sync.go of Kubernetes).
_HASH_LABEL = "pod-template-hash"
# Limits of objects' names, which the API server does not apply to references.
_NAME_CHARS, _KIND_CHARS = 253, 63


class Controller(NamedTuple):
    """An object that owns pods, or a pod without an owner."""

    namespace: str
    kind: str
    name: str


# The kinds that others control, with the path of their lists in a namespace.
CONTROLLED = {
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
}
Controllers = Mapping[Controller, Controller]
"""The controller of each object that has one."""


def controller_of(metadata: kube.ObjectMeta) -> Controller | None:
    """The object that controls this one; None without one."""
    owner = controlling_owner(metadata)
    if owner is None or not (owner.kind and owner.name):
        return None
    if len(owner.name) > _NAME_CHARS or len(owner.kind) > _KIND_CHARS:
        return None
    return Controller(metadata.namespace or "default", owner.kind, owner.name)


def controlling_owner(metadata: kube.ObjectMeta) -> kube.OwnerReference | None:
    """The reference to the object that controls this one, with its uid; None without one."""
    return next((owner for owner in metadata.owner_references or () if owner.controller), None)


def add_controller(known: dict[Controller, Controller], kind: str, metadata: kube.ObjectMeta | None) -> None:
    """Add an object of this kind, if it has a controller."""
    above = controller_of(metadata) if metadata is not None else None
    if above is not None and metadata is not None:
        known[Controller(above.namespace, kind, metadata.name or "")] = above


def top_controller(metadata: kube.ObjectMeta, controllers: Controllers) -> Controller | None:
    """The workload of a pod: the Deployment of its ReplicaSet, the CronJob of its Job, or another controller;
    None without one. Without the ReplicaSets in `controllers`, their names show the Deployment."""
    found = controller_of(metadata)
    if found is None or found in controllers:
        return controllers[found] if found is not None else None
    # No name ends with a dash, so a missing label is the end of none.
    end = "-" + strings(metadata.labels).get(_HASH_LABEL, "")
    if found.kind == "ReplicaSet" and found.name.endswith(end):
        return found._replace(kind="Deployment", name=found.name.removesuffix(end))
    return found
