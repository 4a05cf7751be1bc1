"""The gang of a pod: the pod's annotations, or the labels that other projects put on the pods of a group.

Names are those of JobSet 0.11 (api/jobset/v1alpha2/jobset_types.go), LeaderWorkerSet 0.8
(api/leaderworkerset/v1/leaderworkerset_types.go), Kueue 0.17
(pkg/controller/jobs/pod/constants/constants.go and apis/kueue/v1beta2/topology_types.go), Kubeflow's
training operator 1.9 and MPI operator 0.8 (pkg/apis/kubeflow.org/v1/common_types.go,
pkg/apis/kubeflow/v2beta1/constants.go), the coscheduling plugin 0.34 (apis/scheduling/v1alpha1/types.go),
whose label Kubeflow's Trainer 2.2 sets, and of Kubernetes itself (core/v1/types.go: `spec.workloadRef` in
1.35, `spec.schedulingGroup` from 1.36 on)."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from scheduler_ext.core.errors import ConfigError
from scheduler_ext.core.request.constraints import ANNOTATION_PREFIX, shown
from scheduler_ext.core.request.gang_request import (
    GATE,
    NODE_POOL,
    GangKey,
    GangRequest,
    InvalidGang,
    OnDeadline,
)
from scheduler_ext.wire import kube
from scheduler_ext.wire.kube import strings
from scheduler_ext.wire.times import duration_s

GANG = f"{ANNOTATION_PREFIX}gang"
"""A name: the pods of the namespace with this name are one gang."""
SIZE = f"{ANNOTATION_PREFIX}gang-size"
"""1 to 1000: so many pods start together. Further ones of the same owner, such as an elastic Job, start one
by one then, and those of others together. It adds the number where the object of another project names the
gang (docs/features/gangs/gangs.md#a-gang)."""
REQUIRED_TOPOLOGY = f"{ANNOTATION_PREFIX}gang-required-topology"
"""A label key of nodes, or `node-pool`: the nodes of all members have one value of the label."""
PREFERRED_TOPOLOGY = f"{ANNOTATION_PREFIX}gang-preferred-topology"
"""The same; such nodes are tried first."""
DEADLINE = f"{ANNOTATION_PREFIX}gang-deadline"
"""10s to 24h: the time from the end of the gates to the start of the last member. Without it
`nominate.gangs.deadline`."""
ON_DEADLINE = f"{ANNOTATION_PREFIX}gang-on-deadline"
"""`evict` or `hold`: whether the gang is then evicted whole or keeps its places. Without it
`nominate.gangs.onDeadline`."""
MAX_DURATION = f"{ANNOTATION_PREFIX}max-duration"
"""1s to 366 days, also for pods of no gang: the pod runs at most so long, so it may use places that are kept
for a gang until that time."""
_OURS = (GANG, SIZE, REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, DEADLINE, ON_DEADLINE)

MAX_SIZE = 1000
DEADLINE_BOUNDS_S = (10, 86_400)
DURATION_BOUNDS_S = (1, 366 * 86_400)

_JOBSET = "jobset.sigs.k8s.io/jobset-name"
_LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
_LWS_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
_LWS_SIZE = "leaderworkerset.sigs.k8s.io/size"
_KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
_KUEUE_SIZE = "kueue.x-k8s.io/pod-group-total-count"
_KUEUE_REQUIRED = "kueue.x-k8s.io/podset-required-topology"
_KUEUE_PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
_KUBEFLOW_JOB = "training.kubeflow.org/job-name"
_COSCHEDULING = "scheduling.x-k8s.io/pod-group"
# With these, the first pod has a node before others are created, unless labels of nodes say where they go.
_LWS_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
_JOBSET_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_JOBSET_BY_LABELS = "alpha.jobset.sigs.k8s.io/node-selector"
EXCLUSIVE = ((_LWS_EXCLUSIVE, ""), (_JOBSET_EXCLUSIVE, _JOBSET_BY_LABELS))
"""Annotations with which pods wait for others of their group, each unless it has the other one."""

# Every field of metadata by which a pod names a gang.
NAMING = frozenset((*_OURS, _JOBSET, _LWS_INDEX, _KUEUE_GROUP, _KUBEFLOW_JOB, _COSCHEDULING))
# All fields of metadata that the gang of a pod follows from.
READ = NAMING | {
    *(_LWS_NAME, _LWS_SIZE, _LWS_EXCLUSIVE),
    *(_KUEUE_SIZE, _KUEUE_REQUIRED, _KUEUE_PREFERRED),
    *(_JOBSET_EXCLUSIVE, _JOBSET_BY_LABELS),
}

# A DNS subdomain with underscores, so that each name of an object or a label value is one.
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?", re.ASCII)
_LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII
)


class GroupKey(NamedTuple):
    """An object that says how many pods belong together: its kind, namespace and name."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class DeclaredGroup:
    """What the object of a group says; `size` None: its pods need not start together."""

    size: int | None
    required_topology: str | None = None


Groups = Callable[[GroupKey], DeclaredGroup | None]
"""The objects of groups that a cluster has; None for an unknown one."""


@dataclass(frozen=True, slots=True)
class _GroupReference:
    """A group that the pod names; `where` is the field, `size` its number of pods as text, from
    `size_field`. `group` is the object that says what the pod does not."""

    group: GroupKey
    where: str
    size: str | None = None
    size_field: str = ""
    required: str | None = None
    preferred: str | None = None


class _BadFieldError(ValueError):
    """A value that cannot be read; never leaves this module."""


def no_groups(_: GroupKey) -> None:
    """A cluster whose objects of groups are not known."""


def read_gang_request(pod: kube.Pod, groups: Groups = no_groups) -> GangRequest | InvalidGang | None:
    """The gang that a pod belongs to; None for a pod alone, and for a gang of one. Annotations of this
    project come first; labels of the same names stand for them, so that `kubectl get pods -l` finds the
    pods. Then comes the first of the groups of other projects, whose missing parts annotations add: a
    JobSet's pods do not say how many they are. If nothing else says so, they are pods alone unless
    annotations or a gate make them a gang."""
    metadata = pod.metadata or kube.ObjectMeta()
    try:
        ours = _own_fields(metadata)
        found = _named(pod, metadata, ours)
        if found is None:
            return None
        gang_request = _gang_request(found, ours, groups, must_say=bool(ours) or is_gated(pod))
    except _BadFieldError as error:
        return InvalidGang(str(error))
    return gang_request if gang_request is not None and gang_request.size > 1 else None


def max_duration_s(pod: kube.Pod) -> float | None:
    """The longest time in seconds that a pod runs: the annotation, or `spec.activeDeadlineSeconds`, after
    which the kubelet ends it, whichever is less. None without either; an annotation that cannot be read
    states nothing."""
    spec = pod.spec or kube.PodSpec()
    limits = [float(spec.active_deadline_seconds)] if spec.active_deadline_seconds is not None else []
    with suppress(_BadFieldError):
        limits += _stated_s(pod)
    return min(limits, default=None)


def unreadable_max_duration(pod: kube.Pod) -> str | None:
    """Why the annotation about the longest run states nothing; None if it can be read or is not there."""
    try:
        _stated_s(pod)
    except _BadFieldError as error:
        return str(error)
    return None


def unreadable_gang(pod: kube.Pod) -> str | None:
    """Why the gang that a pod names cannot be read; None if it can, if another object says more about it, or
    without one."""

    def unread(group: GroupKey) -> None:
        raise LookupError(group)

    with suppress(LookupError):
        gang_request = read_gang_request(pod, unread)
        return gang_request.message if isinstance(gang_request, InvalidGang) else None
    return None


def _stated_s(pod: kube.Pod) -> list[float]:
    text = strings((pod.metadata or kube.ObjectMeta()).annotations).get(MAX_DURATION)
    return [] if text is None else [_duration(MAX_DURATION, text, *DURATION_BOUNDS_S)]


def is_gated(pod: kube.Pod) -> bool:
    """Whether a pod is behind the gate of gangs."""
    return GATE in gates(pod)


def names_gang(pod: kube.Pod) -> bool:
    """Whether a pod may belong to a gang: a quick test for the many pods that do not."""
    metadata, spec = pod.metadata or kube.ObjectMeta(), pod.spec or kube.PodSpec()
    return (
        not NAMING.isdisjoint(metadata.labels or ())
        or not NAMING.isdisjoint(metadata.annotations or ())
        or spec.scheduling_group is not None
        or spec.workload_ref is not None
        or is_gated(pod)
    )


def gates(pod: kube.Pod) -> tuple[str, ...]:
    """The names of a pod's scheduling gates, in their order."""
    raw = (pod.spec.scheduling_gates if pod.spec is not None else None) or ()
    return tuple(_gate(bytes(each)) for each in raw)


def gates_in_words(pod: kube.Pod) -> list[str]:
    """Each scheduling gate of a pod with its owner; kube-scheduler tries no pod that has one."""
    return [_gate_in_words(name) for name in gates(pod)]


def _gate_in_words(name: str) -> str:
    domain, slash, _ = name.partition("/")
    if name == GATE:
        does = "this extender removes it when all pods of the gang have places"
    elif domain == "kueue.x-k8s.io":
        does = "Kueue removes it when it admits the workload"
    else:
        does = (
            f"the controller of {domain} removes it"
            if slash
            else "the component that set it has to remove it"
        )
    return f"scheduling gate {name}: {does}"


GANG_GATE = _gate_in_words(GATE)
"""The words for the gate of gangs, which a simulation of gangs follows."""


def _gate(text: bytes) -> str:
    name = msgspec.json.decode(text)
    return str(name.get("name") or "") if isinstance(name, dict) else ""


def _own_fields(metadata: kube.ObjectMeta) -> dict[str, str]:
    annotations, labels = strings(metadata.annotations), strings(metadata.labels)
    for key in _OURS:
        if key in labels and annotations.get(key, labels[key]) != labels[key]:
            raise _BadFieldError(
                f"annotation {key} is {shown(annotations[key])} and the label of the same name "
                f"{shown(labels[key])}; keep one of them"
            )
    return {
        key: annotations.get(key, labels.get(key, "")).strip()
        for key in _OURS
        if key in annotations or key in labels
    }


def _named(pod: kube.Pod, metadata: kube.ObjectMeta, ours: Mapping[str, str]) -> _GroupReference | None:
    """The group that the pod names first."""
    namespace = metadata.namespace or "default"
    other = next(_groups_of_others(pod, metadata, namespace), None)
    if GANG not in ours:
        if other is None and (fields := [key for key in _OURS if key in ours]):
            raise _BadFieldError(
                f"annotation {fields[0]} without a gang; name it with the annotation {GANG}, the same for "
                "all of its pods"
            )
        return other
    if not _NAME.fullmatch(ours[GANG]):
        raise _BadFieldError(
            f"annotation {GANG}: {shown(ours[GANG])} is no name; use letters, digits, '-', '_' and '.', "
            "at most 253 of them"
        )
    return _GroupReference(GroupKey("gang", namespace, ours[GANG]), f"annotation {GANG}")


def _groups_of_others(pod: kube.Pod, metadata: kube.ObjectMeta, namespace: str) -> Iterator[_GroupReference]:
    spec = pod.spec or kube.PodSpec()
    labels, annotations = strings(metadata.labels), strings(metadata.annotations)
    if spec.scheduling_group is not None and (name := spec.scheduling_group.pod_group_name):
        yield _GroupReference(GroupKey("PodGroup", namespace, name), "spec.schedulingGroup.podGroupName")
    if (ref := spec.workload_ref) is not None and ref.name:
        parts = (ref.name, ref.pod_group, ref.pod_group_replica_key)
        name = "/".join(part for part in parts if part)
        yield _GroupReference(GroupKey("Workload", namespace, name), "spec.workloadRef")
    if name := labels.get(_KUEUE_GROUP):
        yield _GroupReference(
            GroupKey("Kueue pod group", namespace, name),
            f"label {_KUEUE_GROUP}",
            annotations.get(_KUEUE_SIZE),
            _KUEUE_SIZE,
            annotations.get(_KUEUE_REQUIRED),
            annotations.get(_KUEUE_PREFERRED),
        )
    if (of := labels.get(_LWS_NAME)) and (index := labels.get(_LWS_INDEX)):
        group = GroupKey("LeaderWorkerSet", namespace, f"{of}-{index}")
        if _LWS_EXCLUSIVE not in annotations:
            yield _GroupReference(group, f"label {_LWS_INDEX}", annotations.get(_LWS_SIZE), _LWS_SIZE)
    for kind, key in (
        ("coscheduling PodGroup", _COSCHEDULING),
        ("JobSet", _JOBSET),
        ("training job", _KUBEFLOW_JOB),
    ):
        if key == _JOBSET and _JOBSET_EXCLUSIVE in annotations and _JOBSET_BY_LABELS not in annotations:
            continue
        if name := labels.get(key):
            yield _GroupReference(GroupKey(kind, namespace, name), f"label {key}")


def _gang_request(
    found: _GroupReference, ours: Mapping[str, str], groups: Groups, *, must_say: bool
) -> GangRequest | None:
    declared = groups(found.group) if found.group.kind != "gang" else None
    if declared is not None and declared.size is None and SIZE not in ours:
        return None
    if SIZE in ours:
        size = _size(SIZE, ours[SIZE])
    elif found.size is not None:
        size = _size(found.size_field, found.size)
    elif declared is not None and declared.size is not None:
        size = declared.size
    elif not must_say:
        return None
    else:
        raise _BadFieldError(
            f"{found.where} names the {found.group.kind} {found.group.name}, but not how many pods it has; "
            f'add the annotation {SIZE}, such as "8", to all of them'
        )
    group = found.group
    gang_request = GangRequest(
        GangKey(group.namespace, group.kind, group.name),
        size,
        _topology(ours, REQUIRED_TOPOLOGY, found.required, _KUEUE_REQUIRED),
        _topology(ours, PREFERRED_TOPOLOGY, found.preferred, _KUEUE_PREFERRED),
        _duration(DEADLINE, ours[DEADLINE], *DEADLINE_BOUNDS_S) if DEADLINE in ours else None,
        _on_deadline(ours[ON_DEADLINE]) if ON_DEADLINE in ours else None,
    )
    if declared is not None and gang_request.required_topology is None:
        gang_request = replace(gang_request, required_topology=declared.required_topology)
    return gang_request


def _size(key: str, text: str) -> int:
    # int() refuses some thousand digits, zeros in front included.
    if not (len(text) <= 9 and text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_SIZE):
        raise _BadFieldError(f"annotation {key}: {shown(text)} is no number of pods from 1 to {MAX_SIZE}")
    return int(text)


def _topology(ours: Mapping[str, str], key: str, theirs: str | None, their_key: str) -> str | None:
    text, field = (ours[key], key) if key in ours else (theirs, their_key)
    if text is not None and not _LABEL_KEY.fullmatch(text):
        raise _BadFieldError(
            f"annotation {field}: {shown(text)} is no label key of nodes; use one such as "
            f"topology.kubernetes.io/zone, or {NODE_POOL}"
        )
    return text


def _on_deadline(text: str) -> OnDeadline:
    try:
        return OnDeadline(text)
    except ValueError:
        choices = " or ".join(each.value for each in OnDeadline)
        raise _BadFieldError(f"annotation {ON_DEADLINE}: {shown(text)} must be {choices}") from None


def _duration(key: str, text: str, least: float, most: float) -> float:
    try:
        return duration_s(f"annotation {key}", text.strip(), least, most)
    except ConfigError as error:
        raise _BadFieldError(str(error)) from None
