"""The objects of other projects that say how many pods belong together, as plain JSON values."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scheduler_ext.wire.gangs import MAX_SIZE, DeclaredGroup, Group

Json = Mapping[str, Any]


def declared_group(document: Json) -> tuple[Group, DeclaredGroup] | None:
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
            return Group("PodGroup", namespace, name), _pod_group(spec)
        case "scheduling.x-k8s.io", "PodGroup":
            return Group("coscheduling PodGroup", namespace, name), _of_size(_count(spec.get("minMember")))
        case "jobset.x-k8s.io", "JobSet":
            return Group("JobSet", namespace, name), _jobset(spec)
        case "kubeflow.org", _:
            return Group("training job", namespace, name), _of_size(_training_pods(spec))
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
