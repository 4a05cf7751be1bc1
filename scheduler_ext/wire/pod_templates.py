"""Pods of workloads: the pod templates of a Deployment, a Job, or a custom kind with templates.

A template is a mapping with ``spec.containers`` at any place of the object: ``spec.template`` of most kinds,
``spec.jobTemplate.spec.template`` of a CronJob, ``spec.pytorchReplicaSpecs.Worker.template`` of a PyTorchJob,
``spec.workerGroupSpecs[].template`` of a RayCluster. A mapping ``podSpec`` with ``containers`` is also one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Raw

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


class _Metadata(kube.KubeStruct):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None


class _Workload(kube.KubeStruct):
    metadata: _Metadata | None = None


class _Template(kube.KubeStruct):
    metadata: kube.ObjectMeta | None = None
    spec: kube.PodSpec | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """A position of the search in an object: the path for messages, the role of pods there, and their
    number.
    """

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

    def item(self, number: int) -> _Place:
        return _Place(f"{self.path}[{number}]", self.role, self.copies, self.depth + 1)


def template_manifests(kind: str, document: bytes | Raw, where: str) -> list[Manifest]:
    """A pod for each template of an object, named after the workload, and after the role if there are
    several.

    Raises InventoryError naming the object and the field.
    """
    try:
        found = list(_Search().templates(document, _Place()))
    except RecursionError:
        raise InventoryError(f"{where}: nested too deeply") from None
    if not found:
        return []
    metadata = decode_object(document, _Workload, where).metadata or _Metadata()
    name = metadata.name or (metadata.generate_name or "").rstrip("-")
    if not name:
        raise InventoryError(f"{where}: {kind} without metadata.name")
    workload = f"{kind} {metadata.namespace}/{name}" if metadata.namespace else f"{kind} {name}"
    names = _names(name, [place.role for place, _ in found])
    manifests = []
    for pod_name, (place, template) in zip(names, found, strict=True):
        read = decode_object(template, _Template, f"{workload}: {place.path}")
        given = read.metadata or kube.ObjectMeta()
        made = kube.ObjectMeta(
            name=pod_name, namespace=metadata.namespace, labels=given.labels, annotations=given.annotations
        )
        copies = None if kind == "DaemonSet" else place.copies
        manifests.append(Manifest(kube.Pod(metadata=made, spec=read.spec), workload, copies))
    return manifests


def _names(workload: str, roles: list[str]) -> list[str]:
    """A name for the pod of each template; missing or equal roles get a number."""
    if len(roles) == 1:
        return [workload]
    return [
        f"{workload}-{role}" if role and roles.count(role) == 1 else f"{workload}-{role or 'pod'}-{i}"
        for i, role in enumerate(roles)
    ]


class _Search:
    """One search through an object, which ends early if the object has more values than any real one."""

    def __init__(self) -> None:
        self._found = 0
        self._values = 0

    def templates(self, value: bytes | Raw, place: _Place) -> Iterator[tuple[_Place, Raw]]:
        """The templates in a value, in its order."""
        self._values += 1
        if place.depth > _MAX_DEPTH or self._values > _MAX_VALUES or self._found >= _MAX_TEMPLATES:
            return
        content = bytes(value)
        if content[:1] == b"[":
            for i, item in enumerate(msgspec.json.decode(content, type=list[Raw])):
                yield from self.templates(item, place.item(i))
        elif content[:1] == b"{":
            yield from self._of_mapping(content, place)

    def _of_mapping(self, content: bytes, place: _Place) -> Iterator[tuple[_Place, Raw]]:
        mapping = msgspec.json.decode(content, type=dict[str, Raw])
        if place.path.endswith("]"):
            place = _named_after(mapping, place)
        if _has_containers(mapping.get("spec")):
            self._found += 1
            yield place, Raw(content)
            return
        for key, child in mapping.items():
            if key == "podSpec" and _has_containers(child):
                self._found += 1
                yield place.below(key, _factor(mapping, key)), Raw(b'{"spec":%s}' % bytes(child))
            elif key not in _NOT_SEARCHED:
                yield from self.templates(child, place.below(key, _factor(mapping, key)))


def _has_containers(value: Raw | None) -> bool:
    """Whether this is the spec of a pod."""
    content = bytes(value or b"")
    if content[:1] != b"{":
        return False
    containers = msgspec.json.decode(content, type=dict[str, Raw]).get("containers")
    return bytes(containers or b"")[:1] == b"["


def _named_after(mapping: dict[str, Raw], place: _Place) -> _Place:
    """The place of an item of a list; the item's name is the role of its pods."""
    for key in ("groupName", "name"):
        name = _plain(mapping, key)
        if isinstance(name, str) and name:
            return _Place(place.path, name, place.copies, place.depth)
    return place


def _factor(mapping: dict[str, Raw], key: str) -> int:
    """How many copies a mapping wants of the pods below one of its keys."""
    factor = 1
    for field in _COUNTS:
        factor *= _count(mapping, field, 1)
    # A Job runs this many at once, and never more than it wants to complete.
    parallelism = _count(mapping, "parallelism", 1)
    factor *= min(parallelism, _count(mapping, "completions", parallelism))
    if key == "workerTemplate":
        # LeaderWorkerSet: one pod of a group is the leader, by default from the same template.
        factor *= max(0, _count(mapping, "size", 1) - ("leaderTemplate" in mapping))
    return factor


def _count(mapping: dict[str, Raw], field: str, default: int) -> int:
    value = _plain(mapping, field)
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else default


def _plain(mapping: dict[str, Raw], field: str) -> Any:
    """A text or a number of a mapping; None for any other value."""
    content = bytes(mapping.get(field, b""))
    return msgspec.json.decode(content) if content[:1] not in (b"", b"{", b"[") else None
