"""The components of manifests/ applied to the agent, without kustomize."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import yaml

from tests.manifests.objects import Json, of_kind
from tests.manifests.shipped import REPOSITORY, base

COMPONENTS = REPOSITORY / "manifests" / "components"
AGENTS = sorted(path.name for path in COMPONENTS.glob("agent-*"))
Operation = Json


def operations(component: str) -> list[Operation]:
    """The operations of RFC 6902 by which a component changes the DaemonSet."""
    kustomization = yaml.safe_load((COMPONENTS / component / "kustomization.yaml").read_bytes())
    (patch,) = kustomization["patches"]
    assert patch["target"] == {"kind": "DaemonSet", "name": "gpu-scheduler-agent"}
    found: list[Operation] = yaml.safe_load(patch["patch"])
    return found


def with_components(*components: str) -> list[Json]:
    """The base with these components, in that order; raises KeyError for a path that is not there."""
    return patched([operation for component in components for operation in operations(component)])


def patched(changes: Sequence[Operation]) -> list[Json]:
    """The base with these operations on its DaemonSet."""
    objects = base()
    (daemon_set,) = of_kind(objects, "DaemonSet")
    for change in changes:
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
