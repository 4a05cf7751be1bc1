"""Pods of a text: plain ones, and the pod templates of a Deployment, a Job, or a custom kind. A template is a
mapping with `spec.containers` at any place of the object: `spec.template` of most kinds,
`spec.jobTemplate.spec.template` of a CronJob, `spec.pytorchReplicaSpecs.Worker.template` of a PyTorchJob,
`spec.workerGroupSpecs[].template` of a RayCluster. A mapping `podSpec` with `containers` is also
one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import msgspec

from scheduler_ext.core.dra.published import Claim
from scheduler_ext.core.errors import InventoryError
from scheduler_ext.wire import kube
from scheduler_ext.wire.decoding import decode_object
from scheduler_ext.wire.pod.pod_identity import pod_name

# A simulation takes some milliseconds for each pod.
_MAX_PODS = 100_000
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


@dataclass(frozen=True, slots=True)
class Manifest:
    """A pod to ask about: from a text, or from a template of `workload` ("Deployment team/web"). `copies`
    is how many the workload runs; None for one on each node. `claims` are those of the same text."""

    pod: kube.Pod
    workload: str | None = None
    copies: int | None = 1
    claims: tuple[Claim, ...] = ()

    @property
    def name(self) -> str:
        """metadata.name, empty if there is none."""
        return (self.pod.metadata.name if self.pod.metadata else None) or ""

    @property
    def namespace(self) -> str | None:
        """metadata.namespace."""
        return self.pod.metadata.namespace if self.pod.metadata else None

    def notes(self) -> list[str]:
        """Notes that a reader of an answer about this pod needs."""
        if self.workload is None:
            return []
        number = "one on each node" if self.copies is None else f"{self.copies} in total"
        return [f"a pod from the template of {self.workload}, which runs {number}"]

    def named(self, name: str | None, namespace: str | None) -> Manifest:
        """The same pod under another name."""
        metadata = self.pod.metadata or kube.ObjectMeta()
        metadata = msgspec.structs.replace(metadata, name=name, namespace=namespace)
        return replace(self, pod=msgspec.structs.replace(self.pod, metadata=metadata))


def distinct(manifests: Iterable[Manifest]) -> list[Manifest]:
    """The manifests with unique pod names; pods of a second workload of one name get a name with their kind.
    Raises InventoryError for a pod that occurs twice, which would hold its GPUs twice."""
    taken: set[str] = set()
    named = []
    for manifest in manifests:
        if manifest.workload is not None and pod_name(manifest.pod) in taken:
            kind = manifest.workload.partition(" ")[0].lower()
            manifest = manifest.named(f"{manifest.name}-{kind}", manifest.namespace)
        taken.add(pod_name(manifest.pod))
        named.append(manifest)
    refuse_same_pods(manifest.pod for manifest in named)
    return named


def in_namespace(manifests: Iterable[Manifest], namespace: str, *, only: bool) -> list[Manifest]:
    """The manifests; those without a namespace get this one, as from kubectl. With `only`, raises
    InventoryError for a pod of another namespace."""
    placed = []
    for manifest in manifests:
        named = manifest.namespace or namespace
        if only and named != namespace:
            raise InventoryError(
                f"Pod {pod_name(manifest.pod)} is not in namespace {namespace}; give -n {named}, or none"
            )
        placed.append(manifest.named(manifest.name or None, named))
    return distinct(placed)


def every_pod(manifests: Iterable[Manifest]) -> list[kube.Pod]:
    """Every pod of the manifests, the pods of a template numbered; one for a workload with one on each node.
    Raises InventoryError if there are too many, or none."""
    manifests = list(manifests)
    wanted = sum(1 if each.copies is None else each.copies for each in manifests)
    if not 0 < wanted <= _MAX_PODS:
        raise InventoryError(f"{wanted} pods by its replicas; give 1 to {_MAX_PODS}")
    pods = []
    for each in manifests:
        if each.copies in (None, 1):
            pods.append(each.pod)
        else:
            pods += [each.named(f"{each.name}-{i}", each.namespace).pod for i in range(each.copies or 0)]
    refuse_same_pods(pods)
    return pods


def refuse_same_pods(pods: Iterable[kube.Pod]) -> None:
    """Raises InventoryError for a pod that occurs twice, which would hold its GPUs twice."""
    seen = set()
    for name in map(pod_name, pods):
        if name in seen:
            raise InventoryError(f"Pod {name} is in the file twice; keep one")
        seen.add(name)


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
    several. Raises InventoryError naming the object and the field."""
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
    """The templates in a value, in its order; `left` ends with the number of values to look at."""
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
