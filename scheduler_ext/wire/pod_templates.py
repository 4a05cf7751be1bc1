"""Pods of workloads: the pod templates of a Deployment, a Job, or a custom kind with templates.

A template is a mapping with ``spec.containers`` at any place of the object: ``spec.template`` of most kinds,
``spec.jobTemplate.spec.template`` of a CronJob, ``spec.pytorchReplicaSpecs.Worker.template`` of a PyTorchJob,
``spec.workerGroupSpecs[].template`` of a RayCluster. A mapping ``podSpec`` with ``containers`` is also one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import msgspec

from scheduler_ext.core.errors import InventoryError
from scheduler_ext.wire import kube
from scheduler_ext.wire.decoding import decode_object
from scheduler_ext.wire.manifests import Manifest

# The deepest of the usual places, that of a JobSet, has 8 levels.
_MAX_DEPTH: Final = 12
# Kinds with many roles have a few dozen templates among a few hundred values.
_MAX_TEMPLATES: Final = 100
_MAX_VALUES: Final = 20_000
# These contain no template, and annotations may be long.
_NOT_SEARCHED: Final = ("metadata", "status")
# The number of a template's pods is the product of these fields on the way to it.
_COUNTS: Final = ("replicas", "numOfHosts")
# The keys of a path name the role of its pods, except for these.
_NAMELESS: Final = ("", "spec", "pod", "job", "data")
_ENDS_OF_NAMES: Final = ("GroupSpec", "Template", "template", "Spec")


class _Template(kube.KubeStruct):
    metadata: kube.ObjectMeta | None = None
    spec: kube.PodSpec | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """A position in an object: the path for messages, the role of pods there, and their number."""

    path: str = ""
    role: str = ""
    copies: int = 1
    depth: int = 0

    def below(self, key: str, factor: int) -> _Place:
        role = key
        for end in _ENDS_OF_NAMES:
            role = role.removesuffix(end)
        return _Place(
            f"{self.path}.{key}" if self.path else key,
            self.role if role in _NAMELESS else role.lower(),
            self.copies * factor,
            self.depth + 1,
        )

    def item(self, number: int, value: object) -> _Place:
        """The place of an item of a list; a name of the item is the role of its pods."""
        given = [value.get(key) for key in ("groupName", "name")] if isinstance(value, dict) else []
        role = next((name for name in given if name and isinstance(name, str)), self.role)
        return replace(self, path=f"{self.path}[{number}]", role=role, depth=self.depth + 1)


def template_manifests(
    kind: str, metadata: kube.ObjectMeta, document: bytes | msgspec.Raw, where: str
) -> list[Manifest]:
    """A pod for each template of an object, named after the workload, and after the role if there are
    several.

    Raises InventoryError naming the object and the field.
    """
    whole = decode_object(document, dict[str, Any], where)
    found = list(islice(_templates(whole, _Place(), iter(range(_MAX_VALUES))), _MAX_TEMPLATES))
    if not found:
        return []
    name = metadata.name or str((whole.get("metadata") or {}).get("generateName") or "").rstrip("-")
    if not name:
        raise InventoryError(f"{where}: {kind} without metadata.name")
    workload = f"{kind} {metadata.namespace}/{name}" if metadata.namespace else f"{kind} {name}"
    roles = [place.role for place, _ in found]
    manifests = []
    for i, (place, template) in enumerate(found):
        read = decode_object(msgspec.json.encode(template), _Template, f"{workload}: {place.path}")
        given = read.metadata or kube.ObjectMeta()
        made = kube.ObjectMeta(
            name=name if len(found) == 1 else _name(name, roles, i),
            namespace=metadata.namespace,
            labels=given.labels,
            annotations=given.annotations,
        )
        copies = None if kind == "DaemonSet" else place.copies
        manifests.append(Manifest(kube.Pod(metadata=made, spec=read.spec), workload, copies))
    return manifests


def _name(workload: str, roles: list[str], i: int) -> str:
    """The name of the pod of a template; a missing role, or one of several templates, gets a number."""
    role = roles[i]
    return f"{workload}-{role}" if role and roles.count(role) == 1 else f"{workload}-{role or 'pod'}-{i}"


def _templates(value: Any, place: _Place, left: Iterator[int]) -> Iterator[tuple[_Place, Any]]:
    """The templates in a value, in its order; ``left`` ends with the number of values to look at."""
    if place.depth > _MAX_DEPTH or next(left, None) is None:
        return
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _templates(item, place.item(i, item), left)
    elif isinstance(value, dict):
        if _is_pod_spec(value.get("spec")):
            yield place, value
            return
        for key, child in value.items():
            below = place.below(key, _factor(value, key))
            if key == "podSpec" and _is_pod_spec(child):
                yield below, {"spec": child}
            elif key not in _NOT_SEARCHED:
                yield from _templates(child, below, left)


def _is_pod_spec(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("containers"), list)


def _factor(mapping: dict[str, Any], key: str) -> int:
    """How many copies a mapping wants of the pods below one of its keys."""
    factor = math.prod(_count(mapping, field, 1) for field in _COUNTS)
    # A Job runs this many at once, and never more than it wants to complete.
    parallelism = _count(mapping, "parallelism", 1)
    factor *= min(parallelism, _count(mapping, "completions", parallelism))
    if key == "workerTemplate":
        # LeaderWorkerSet: one pod of a group is the leader, by default from the same template.
        factor *= max(0, _count(mapping, "size", 1) - ("leaderTemplate" in mapping))
    return factor


def _count(mapping: dict[str, Any], field: str, default: int) -> int:
    value = mapping.get(field)
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else default
