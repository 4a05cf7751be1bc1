"""The objects of other projects that say how many pods belong together, as plain JSON values."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from scheduler_ext.wire.gangs import EXCLUSIVE, MAX_SIZE, DeclaredGroup, GroupKey

Json = Mapping[str, Any]
_BY_GROVE = "Grove's PodGang is for the scheduler KAI"


class MadeGangs(NamedTuple):
    """The gangs that the pods of a workload will form: `groups` of `size` pods each, with names after the
    workload and `role`. `groups` None: one gang. `by` is who starts them together, if it is not the
    extender."""

    size: int
    groups: int | None = None
    role: str = ""
    by: str = ""


def made_gangs(document: Json) -> MadeGangs | str | None:
    """The gangs of the pods that an object's controller will make; why they are none, for a kind that may
    look like gangs; None for another kind. Volcano's fields are those of 1.12
    (batch/v1alpha1/job.go, whose webhook sets `schedulerName` and `minAvailable`)."""
    spec, kind = _object(document, "spec"), document.get("kind")
    api_group = str(document.get("apiVersion")).partition("/")[0]
    match api_group, kind:
        case "ray.io", _:
            return "no object says how many start together"
        case "grove.io", "PodCliqueSet":
            return _BY_GROVE
        case "nvidia.com", "DynamoGraphDeployment" if _on_several_nodes(spec):
            return _BY_GROVE
        case "leaderworkerset.x-k8s.io", "LeaderWorkerSet":
            if _is_exclusive(document):
                return "with exclusive-topology the workers wait for their leader"
            if spec.get("startupPolicy") == "LeaderReady":
                return "with startupPolicy LeaderReady the workers wait for their leader"
            size = _count(_object(spec, "leaderWorkerTemplate").get("size", 1))
            return _made(size, _count(spec.get("replicas", 1)))
        case "batch.volcano.sh", "Job":
            return _volcano(spec)
    named = {**document, "metadata": {**_object(document, "metadata"), "name": "any"}}
    declared = declared_group(named) if kind != "PodGroup" else None
    if declared is None:
        return None
    if api_group == "jobset.x-k8s.io" and _is_exclusive(document):
        return "with exclusive-topology the others wait for the first pod of each Job"
    if declared[1].size is None and api_group == "jobset.x-k8s.io":
        return "its Jobs wait for each other"
    return _made(declared[1].size or 0)


def _volcano(spec: Json) -> MadeGangs | str | None:
    tasks = [task for task in spec.get("tasks") or () if isinstance(task, dict)]
    if spec.get("schedulerName", "volcano") != "volcano":
        return "minAvailable is for the scheduler volcano"
    size = _count(spec.get("minAvailable")) or sum(_count(task.get("replicas", 1)) for task in tasks)
    made = _made(size)
    return made._replace(by="Volcano") if made is not None else None


def _on_several_nodes(spec: Json) -> bool:
    """Whether a part of a Dynamo graph has one replica on several nodes."""
    parts = spec.get("components") or list(_object(spec, "services").values())
    return any(isinstance(part, dict) and "multinode" in part for part in parts)


def _made(size: int, groups: int | None = None) -> MadeGangs | None:
    return MadeGangs(size, groups) if 1 < size <= MAX_SIZE else None


def _is_exclusive(document: Json) -> bool:
    """Whether an object, or a Job in it, wants each group alone in a domain."""
    jobs = [job for job in _object(document, "spec").get("replicatedJobs") or () if isinstance(job, dict)]
    for each in (document, *(_object(job, "template") for job in jobs)):
        annotations = _object(_object(each, "metadata"), "annotations")
        if any(key in annotations and by_labels not in annotations for key, by_labels in EXCLUSIVE):
            return True
    return False


def declared_group(document: Json) -> tuple[GroupKey, DeclaredGroup] | None:
    """A group and its number of pods: of a PodGroup (of Kubernetes or of the coscheduling plugin), a
    JobSet, or a job of Kubeflow's operators. None for another object, and where the number is not a
    sensible one. Fields are those of the sources that `gangs` names."""
    metadata, spec = _object(document, "metadata"), _object(document, "spec")
    name, namespace = metadata.get("name"), metadata.get("namespace") or "default"
    api_group, kind = str(document.get("apiVersion")).partition("/")[0], document.get("kind")
    if not isinstance(name, str) or not name:
        return None
    match api_group, kind:
        case "scheduling.k8s.io", "PodGroup":
            return GroupKey("PodGroup", namespace, name), _pod_group(spec)
        case "scheduling.x-k8s.io", "PodGroup":
            return GroupKey("coscheduling PodGroup", namespace, name), _of_size(_count(spec.get("minMember")))
        case "jobset.x-k8s.io", "JobSet":
            return GroupKey("JobSet", namespace, name), _jobset(spec)
        case "kubeflow.org", _:
            return GroupKey("training job", namespace, name), _of_size(_training_pods(spec))
    return None


def _of_size(size: int) -> DeclaredGroup:
    return DeclaredGroup(size if 1 <= size <= MAX_SIZE else None)


def _pod_group(spec: Json) -> DeclaredGroup:
    """Without the gang policy, Kubernetes starts each pod by itself."""
    size = _count(_object(_object(spec, "schedulingPolicy"), "gang").get("minCount"))
    topology = _object(spec, "schedulingConstraints").get("topology") or [{}]
    key = topology[0].get("key") if isinstance(topology, list) and isinstance(topology[0], dict) else None
    return replace(_of_size(size), required_topology=key if isinstance(key, str) else None)


def _jobset(spec: Json) -> DeclaredGroup:
    """The pods of all Jobs that run at one time. Where later Jobs wait for earlier ones, the pods cannot
    start together."""
    jobs = [job for job in spec.get("replicatedJobs") or () if isinstance(job, dict)]
    order = _object(spec, "startupPolicy").get("startupPolicyOrder")
    if order == "InOrder" or any(job.get("dependsOn") for job in jobs):
        return DeclaredGroup(None)
    total = 0
    for job in jobs:
        inner = _object(_object(job, "template"), "spec")
        parallel = _count(inner.get("parallelism", 1))
        total += _count(job.get("replicas", 1)) * min(parallel, _count(inner.get("completions", parallel)))
    return _of_size(total)


def _training_pods(spec: Json) -> int:
    """The replicas of every role, of an elastic job the least, except a launcher that is created once the
    workers run; `minAvailable` where the job sets it."""
    policy = _object(_object(spec, "runPolicy"), "schedulingPolicy")
    if policy.get("minAvailable") is not None:
        return _count(policy["minAvailable"])
    roles = [each for key in spec if key.endswith("ReplicaSpecs") for each in _object(spec, key).items()]
    counts = {name: _count(role.get("replicas", 1)) for name, role in roles if isinstance(role, dict)}
    if spec.get("launcherCreationPolicy") == "WaitForWorkersReady":
        counts.pop("Launcher", None)
    if "Worker" in counts and (least := _count(_object(spec, "elasticPolicy").get("minReplicas"))):
        counts["Worker"] = min(counts["Worker"], least)
    return sum(counts.values())


def _object(value: Json, key: str) -> Json:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
