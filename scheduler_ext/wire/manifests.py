"""Pods of a text: plain ones, and the pod templates of a Deployment, a Job, or a custom kind. A template is a
mapping with `spec.containers` at any place of the object: `spec.template` of most kinds,
`spec.jobTemplate.spec.template` of a CronJob, `spec.pytorchReplicaSpecs.Worker.template` of a PyTorchJob,
`spec.workerGroupSpecs[].template` of a RayCluster. A mapping `podSpec` with `containers` is also
one. `workloads` reads the kinds that describe their pods in another form, also inside of other objects, such
as an AppWrapper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import msgspec

from scheduler_ext.core.dra.published import Claim
from scheduler_ext.core.errors import InventoryError
from scheduler_ext.core.request.constraints import shown
from scheduler_ext.core.request.gang_request import GangRequest
from scheduler_ext.wire import kube
from scheduler_ext.wire.decoding import decode_object
from scheduler_ext.wire.gang_groups import MadeGangs, made_gangs
from scheduler_ext.wire.gangs import (
    GANG,
    REQUIRED_TOPOLOGY,
    SIZE,
    DeclaredGroup,
    GroupKey,
    names_gang,
    read_gang_request,
)
from scheduler_ext.wire.pod.pod_identity import pod_name
from scheduler_ext.wire.quota import Quota
from scheduler_ext.wire.workloads import Lookup, PodRole, is_read, roles_of

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
_WHOLE_NUMBERS: Final = (*_COUNTS, "parallelism", "completions")
# The second spelling is older, and still read.
_MIN_SCALES: Final = ("autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/minScale")
_ON_EACH_NODE: Final = ("DaemonSet", "BroadcastJob")
# The keys of a path name the role of its pods, except for these.
_NAMELESS: Final = ("", "spec", "pod", "job", "data")
_ENDS_OF_NAMES: Final = ("GroupSpec", "Template", "template", "Spec")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A pod to ask about: from a text, or from a template of `workload` ("Deployment team/web"). `copies`
    is how many the workload runs; None for one on each node. `gangs` is how its pods start together, and
    `remarks` what else a reader needs to know of the workload. `claims` and `quotas` are those of the same
    text, and `unread` is about its objects whose pods are not known."""

    pod: kube.Pod
    workload: str | None = None
    copies: int | None = 1
    gangs: MadeGangs | None = None
    remarks: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    unread: tuple[str, ...] = ()
    quotas: tuple[Quota, ...] = ()

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
            return [*self.remarks, *self.unread]
        number = "one on each node" if self.copies is None else f"{self.copies} in total"
        notes = [f"a pod from the template of {self.workload}, which runs {number}"]
        if self.gangs is not None:
            several = f"{self.gangs.groups} gangs of {self.gangs.size} pods each"
            gangs = f"a gang of {self.gangs.size} pods" if self.gangs.groups in (None, 1) else several
            where = "where gangs are turned on; elsewhere they"
            if self.gangs.by:
                where = f"for {self.gangs.by}; with kube-scheduler they"
            notes.append(f"the pods of {self.workload} are {gangs} {where} start one by one")
        return [*notes, *(f"{self.workload}: {remark}" for remark in self.remarks), *self.unread]

    def pods(self) -> Iterator[kube.Pod]:
        """Every pod of the template, numbered if there are several, with the gang that it will be in."""
        if self.copies in (None, 1):
            yield self._member(0).pod
            return
        for i in range(self.copies or 0):
            yield self._member(i).named(f"{self.name}-{i}", self.namespace).pod

    def _member(self, i: int) -> Manifest:
        """One of the pods."""
        if self.gangs is None or self.workload is None:
            return self
        groups = self.gangs.groups or 1
        index = i // max(1, (self.copies or 1) // groups)
        parts = [self.workload.partition(" ")[2].rpartition("/")[2], self.gangs.role]
        parts += [str(index)] if self.gangs.groups is not None else []
        name = "-".join(part for part in parts if part)
        return self._annotated({GANG: name, SIZE: str(self.gangs.size)})

    def of_group(self, declared: Mapping[GroupKey, DeclaredGroup]) -> Manifest:
        """The same pod with the size of the group of another project that it names, if one of these says it
        and the pod itself does not; with a remark if nothing does."""
        named: list[GroupKey] = []

        def declaring(group: GroupKey) -> DeclaredGroup | None:
            named.append(group)
            return declared.get(group)

        gang_request = read_gang_request(self.pod, declaring)
        if not named or read_gang_request(self.pod) is not None:
            return self
        if isinstance(gang_request, GangRequest):
            return self._annotated(
                {SIZE: str(gang_request.size)}
                | (
                    {REQUIRED_TOPOLOGY: gang_request.required_topology}
                    if gang_request.required_topology
                    else {}
                )
            )
        if named[0] in declared:
            return self
        kind, _, name = named[0]
        unknown = (
            f"how many pods the {kind} {name} has is not known here: they start one by one without the "
            f"annotation {SIZE}"
        )
        return replace(self, remarks=(*self.remarks, unknown))

    def _annotated(self, more: Mapping[str, str]) -> Manifest:
        metadata = self.pod.metadata or kube.ObjectMeta()
        metadata = msgspec.structs.replace(metadata, annotations={**(metadata.annotations or {}), **more})
        return replace(self, pod=msgspec.structs.replace(self.pod, metadata=metadata))

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
    pods = [pod for each in manifests for pod in each.pods()]
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
class _Position:
    """A position in an object: the path for messages, the role of pods there, and their number. `gangs` is
    how they start, or why they do not start together, and `remark` what is not known of them."""

    path: str = ""
    role: str = ""
    copies: int | None = 1
    depth: int = 0
    gangs: MadeGangs | str | None = None
    remark: str | None = None

    def below(self, key: str, factor: int) -> _Position:
        role = key
        for end in _ENDS_OF_NAMES:
            role = role.removesuffix(end)
        return replace(
            self,
            path=self._path(key),
            role=self.role if role in _NAMELESS else role.lower(),
            copies=self._times(factor),
            depth=self.depth + 1,
        )

    def inside(self, value: Mapping[str, Any]) -> _Position:
        """The same place, as it counts inside of an object that is here; a mapping without a kind is none."""
        if not isinstance(value.get("kind"), str):
            return self
        copies = None if value["kind"] in _ON_EACH_NODE else self.copies
        return replace(self, gangs=self._gangs(made_gangs(value)) or self.gangs, copies=copies)

    def counting(self, value: Mapping[str, Any]) -> _Position:
        """The same place, with a remark if a number of copies in the mapping there cannot be read."""
        unread = next((key for key in _WHOLE_NUMBERS if isinstance(value.get(key), (str, float, bool))), None)
        if unread is None:
            return self
        text = f"{self._path(unread)}: {shown(str(value[unread]))} is no whole number, and counts as 1"
        return replace(self, remark=text)

    def of_role(self, role: PodRole) -> _Position:
        """The place of a role of an object that is here."""
        copies = None if role.copies is None else self._times(role.copies)
        gangs = self._gangs(role.gangs) or self.gangs
        return _Position(self._path(role.at), role.name or self.role, copies, self.depth, gangs, role.remark)

    def _gangs(self, made: MadeGangs | str | None) -> MadeGangs | str | None:
        """The gangs of an object that is here; several objects have as many times their gangs."""
        if not isinstance(made, MadeGangs) or not self.copies or self.copies == 1:
            return made
        return made._replace(groups=(made.groups or 1) * self.copies)

    def _path(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def times(self, factor: int) -> _Position:
        """The same place, with so many times its pods."""
        return replace(self, copies=self._times(factor))

    def _times(self, factor: int) -> int | None:
        return None if self.copies is None else self.copies * factor

    def item(self, number: int, value: object) -> _Position:
        """The place of an item of a list; a name of the item is the role of its pods."""
        given = [value.get(key) for key in ("name", "groupName")] if isinstance(value, dict) else []
        role = next((name for name in given if name and isinstance(name, str)), self.role)
        return replace(self, path=f"{self.path}[{number}]", role=role, depth=self.depth + 1)


def template_manifests(
    kind: str,
    metadata: kube.ObjectMeta,
    document: bytes | msgspec.Raw,
    where: str,
    lookup: Lookup = lambda _kind, _name: None,
) -> list[Manifest]:
    """A pod for each template of an object, named after the workload, and after the role if there are
    several. `lookup` finds the objects that it names. Raises InventoryError naming the object and the
    field; UnreadError for an object that does not say what its pods are."""
    whole = {"kind": kind} | decode_object(document, dict[str, Any], where)
    left = iter(range(_MAX_VALUES))
    found = list(islice(_templates(whole, _Position(), left, lookup), _MAX_TEMPLATES))
    if not found:
        return []
    name = metadata.name or str((whole.get("metadata") or {}).get("generateName") or "").rstrip("-")
    if not name:
        raise InventoryError(f"{where}: {kind} without metadata.name")
    workload = f"{kind} {metadata.namespace}/{name}" if metadata.namespace else f"{kind} {name}"
    roles = [place.role for place, _ in found]
    manifests = []
    for i, (place, template) in enumerate(found):
        named = msgspec.json.encode(_with_names(template))
        read = decode_object(named, _Template, f"{workload}: {place.path}")
        given = read.metadata or kube.ObjectMeta()
        made = kube.ObjectMeta(
            name=name if len(found) == 1 else _name(name, roles, i),
            namespace=metadata.namespace,
            labels=given.labels,
            annotations=given.annotations,
        )
        pod, remarks = kube.Pod(metadata=made, spec=read.spec), [place.remark] if place.remark else []
        gangs = None if names_gang(pod) else place.gangs
        if isinstance(gangs, str) and (len(found) > 1 or place.copies != 1):
            remarks.append(
                f"its pods are no gang ({gangs}), and start one by one without the annotation {GANG}"
            )
        gangs = gangs if isinstance(gangs, MadeGangs) else None
        manifests.append(Manifest(pod, workload, place.copies, gangs, tuple(remarks)))
    return manifests


def _with_names(template: dict[str, Any]) -> dict[str, Any]:
    """The template with the names that Knative gives to containers without one (serving 1.19,
    pkg/apis/config/defaults.go, DefaultUserContainerName)."""
    containers = template["spec"]["containers"]
    if all(not isinstance(each, dict) or each.get("name") for each in containers):
        return template
    ends = [""] if len(containers) == 1 else [f"-{i}" for i in range(len(containers))]
    named = [
        each if not isinstance(each, dict) or each.get("name") else {**each, "name": f"user-container{end}"}
        for each, end in zip(containers, ends, strict=True)
    ]
    return {**template, "spec": {**template["spec"], "containers": named}}


def _name(workload: str, roles: list[str], i: int) -> str:
    """The name of the pod of a template; a missing role, or one of several templates, gets a number."""
    role = roles[i]
    return f"{workload}-{role}" if role and roles.count(role) == 1 else f"{workload}-{role or 'pod'}-{i}"


def _templates(
    value: Any, place: _Position, left: Iterator[int], lookup: Lookup
) -> Iterator[tuple[_Position, Any]]:
    """The templates in a value, in its order; `left` ends with the number of values to look at."""
    if place.depth > _MAX_DEPTH or next(left, None) is None:
        return
    if isinstance(value, dict):
        place = place.inside(value).counting(value)
        group, kind = str(value.get("apiVersion")).partition("/")[0], str(value.get("kind"))
        if is_read(group, kind):
            for role in roles_of(group, kind, value, lookup):
                yield place.of_role(role), role.template
            return
        if _is_pod_spec(value.get("spec")):
            # A template has no such field; where an operator adds it, it is the number of its pods.
            yield place.times(_count(value, "replicas", 1)), value
            return
    for below, child in _children(value, place):
        yield from _templates(child, below, left, lookup)


def _children(value: Any, place: _Position) -> Iterator[tuple[_Position, Any]]:
    """What a value has where templates may be."""
    if isinstance(value, list):
        yield from ((place.item(i, item), item) for i, item in enumerate(value))
    elif isinstance(value, dict):
        for key, child in value.items():
            if key not in _NOT_SEARCHED:
                is_spec = key == "podSpec" and _is_pod_spec(child)
                yield place.below(key, _factor(value, key, place.path)), {"spec": child} if is_spec else child


def _is_pod_spec(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("containers"), list)


def _factor(mapping: dict[str, Any], key: str, path: str) -> int:
    """How many copies a mapping at a path wants of the pods below one of its keys."""
    factor = math.prod(_count(mapping, field, 1) for field in _COUNTS)
    if ".workerGroupSpecs[" in f".{path}" and key == "template":
        factor = _ray_workers(mapping)
    if key == "template" and (least := _min_scale(mapping)) is not None:
        factor = max(1, least)
    if key == "trialTemplate":
        # Katib runs so many trials at once (api/v1beta1, experiment_defaults.go).
        trials = _count(mapping, "parallelTrialCount", 3)
        factor *= min(trials, _count(mapping, "maxTrialCount", trials))
    # A Job runs this many at once, and never more than it wants to complete.
    parallelism = _count(mapping, "parallelism", 1)
    factor *= min(parallelism, _count(mapping, "completions", parallelism))
    if key == "workerTemplate":
        # LeaderWorkerSet: one pod of a group is the leader, by default from the same template.
        factor *= max(0, _count(mapping, "size", 1) - bool(mapping.get("leaderTemplate")))
    return factor


def _ray_workers(group: dict[str, Any]) -> int:
    """The workers of a group of a RayCluster (GetWorkerGroupDesiredReplicas in
    ray-operator/controllers/ray/utils/util.go of KubeRay 1.4)."""
    if group.get("suspend") is True:
        return 0
    wanted = max(_count(group, "replicas", 0), _count(group, "minReplicas", 0))
    return min(wanted, _count(group, "maxReplicas", wanted)) * _count(group, "numOfHosts", 1)


def _min_scale(mapping: dict[str, Any]) -> int | None:
    """The least number of pods of a template of Knative, by its annotation."""
    metadata = mapping["template"].get("metadata") if isinstance(mapping["template"], dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    scales = (annotations.get(key) for key in _MIN_SCALES) if isinstance(annotations, dict) else ()
    found = next((scale for scale in scales if scale is not None), None)
    return int(found) if isinstance(found, str) and found.isascii() and found.isdigit() else None


def _count(mapping: dict[str, Any], field: str, default: int) -> int:
    value = mapping.get(field)
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else default
