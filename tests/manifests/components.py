"""The components of manifests/ applied to the agent, without kustomize."""

from __future__ import annotations

import copy
from typing import Any

import yaml

from tests.manifests.objects import Json, of_kind
from tests.manifests.shipped import REPOSITORY, base

COMPONENTS = REPOSITORY / "manifests" / "components"
AGENTS = sorted(path.name for path in COMPONENTS.glob("agent-*"))
Operation = Json
_POD = "DaemonSet gpu-scheduler-agent"
_CONTAINER = f"{_POD}/agent"
_NO_ESCALATION = f"{_CONTAINER}: securityContext.allowPrivilegeEscalation is not False"
_NO_CAPABILITIES = f"{_CONTAINER}: securityContext.capabilities is not {{'drop': ['ALL']}}"
# All rights of a component beyond the base's policy.
ASKED: dict[str, set[str]] = {
    "agent-runtime-class": set(),
    "agent-volume-mounts": {f"{_POD}: volume all-gpus is a hostPath"},
    "agent-mig": {_NO_ESCALATION, _NO_CAPABILITIES},
    "agent-host-processes": {f"{_POD}: hostPID is set"},
    "agent-gke": {
        _NO_ESCALATION,
        _NO_CAPABILITIES,
        f"{_CONTAINER}: securityContext.privileged is set",
        f"{_POD}: volume nvidia is a hostPath",
        f"{_POD}: volume dev is a hostPath",
    },
    # Roles of OpenShift, each for one namespace.
    "openshift": {
        "RoleBinding gpu-scheduler-nonroot: bound to system:openshift:scc:nonroot-v2",
        "RoleBinding gpu-scheduler-agent-privileged: bound to system:openshift:scc:privileged",
    },
    "without-kube-system": set(),
}


def _operations(component: str) -> list[Operation]:
    """The operations of RFC 6902 by which a component changes the DaemonSet."""
    kustomization = yaml.safe_load((COMPONENTS / component / "kustomization.yaml").read_bytes())
    (patch,) = kustomization["patches"]
    assert patch["target"] == {"kind": "DaemonSet", "name": "gpu-scheduler-agent"}
    found: list[Operation] = yaml.safe_load(patch["patch"])
    return found


def with_components(*components: str) -> list[Json]:
    """The base with these components, in that order; raises KeyError for a path that is not there."""
    objects = base()
    (daemon_set,) = of_kind(objects, "DaemonSet")
    for component in components:
        for change in _operations(component):
            _apply(daemon_set, change)
    return objects


def _apply(document: Any, change: Operation) -> None:
    *above, last = change["path"].strip("/").split("/")
    for key in above:
        document = document[int(key) if isinstance(document, list) else key]
    if change["op"] == "add" and isinstance(document, list):
        assert last == "-"
        document.append(copy.deepcopy(change["value"]))
        return
    if change["op"] != "add" and last not in document:
        raise KeyError(change["path"])
    if change["op"] == "remove":
        del document[last]
    else:
        document[last] = copy.deepcopy(change["value"])
