"""Kinds of workloads that describe their pods in another form than pod templates, and how many pods each role
has. `manifests` finds templates in every other kind.

Fields are those of KServe 0.16 (pkg/apis/serving/v1beta1, pkg/apis/serving/v1alpha2), Kubeflow Trainer 2.1
(pkg/apis/trainer/v1alpha1), Argo Workflows 3.7 (pkg/apis/workflow/v1alpha1), Spark operator 2.3
(api/v1beta2; memory as in Spark's resource-managers/kubernetes), Dynamo 0.7
(deploy/operator/api/v1alpha1), NIM operator 3.0 (api/apps/v1alpha1), Tekton Pipelines 1.0
(pkg/apis/pipeline/v1), Grove 0.1 (operator/api/core/v1alpha1), Slurm operator 1.0 (api/v1beta1),
Volcano 1.12 (batch/v1alpha1, pkg/controllers/job/job_controller_util.go) and Flux operator 0.2
(api/v1alpha2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from scheduler_ext.core.errors import InventoryError
from scheduler_ext.wire.gang_groups import MadeGangs

Json = Mapping[str, Any]
Lookup = Callable[[str, str | None], Json | None]
"""An object of the same text by kind and name; without a name, the only one of the kind."""


@dataclass(frozen=True, slots=True)
class PodRole:
    """Pods of one role: `at` is the place of their description in the object, `template` a pod template,
    `copies` their number, None for one on each node. `remark` is what is not known about them, and `gangs`
    how they start."""

    name: str
    at: str
    template: Json
    copies: int | None = 1
    remark: str | None = None
    gangs: MadeGangs | None = None


class UnreadError(InventoryError):
    """What an object does not say about its pods, and what to give instead. With `has_pods` False it has
    none, so a file with others is complete without it."""

    def __init__(self, message: str, *, has_pods: bool = True) -> None:
        super().__init__(message)
        self.has_pods = has_pods


def is_read(api_group: str, kind: str) -> bool:
    """Whether `roles_of` knows a kind."""
    return (api_group, kind) in _KINDS or (api_group, kind) in _WITHOUT_PODS


def roles_of(api_group: str, kind: str, document: Json, lookup: Lookup) -> Iterator[PodRole]:
    """The pods of an object of such a kind. Raises UnreadError."""
    if (why := _WITHOUT_PODS.get((api_group, kind))) is not None:
        raise UnreadError(why, has_pods=not why.startswith(_NONE))
    return _KINDS[api_group, kind](document, lookup)


def inference_service(document: Json, lookup: Lookup) -> Iterator[PodRole]:
    """KServe: the containers of a predictor, a transformer and an explainer, or one for a `model`, whose
    other fields a ServingRuntime has."""
    spec = _object(document, "spec")
    for name in ("predictor", "transformer", "explainer"):
        part = _object(spec, name)
        if not part:
            continue
        at = f"spec.{name}"
        if "workerSpec" in part:
            raise UnreadError(
                f"the operator computes the workers of {at}.workerSpec; give the Deployments that it makes"
            )
        # Knative starts one pod also where it may later run none.
        copies = max(1, _count(part, "minReplicas"))
        field = next((key for key in _FRAMEWORKS if isinstance(part.get(key), dict)), "")
        model = _object(part, field)
        if not field:
            yield PodRole(name, at, _pod(_containers(part, "containers"), part), copies)
            continue
        asked = model.get("runtime")
        runtime = lookup("ServingRuntime", asked) or lookup("ClusterServingRuntime", asked)
        if runtime is not None and not asked and not _serves(runtime, _object(model, "modelFormat")):
            runtime = None
        if runtime is not None:
            base = _object(runtime, "spec")
            containers = [*_containers(base, "containers"), *_containers(part, "containers")]
            changed = _with_resources(containers, "kserve-container", model)
            yield PodRole(name, at, _pod(changed, base, part), copies)
            continue
        which = f"the ServingRuntime {asked}" if asked else "its ServingRuntime"
        if not _devices(model):
            raise UnreadError(
                f"{at}.{field} has no GPUs, and {which} is not in the file; add it, or GPUs in "
                f"{at}.{field}.resources.limits"
            )
        containers = [{**model, "name": "kserve-container"}, *_containers(part, "containers")]
        remark = f"{which} is not in the file: its node selector, its tolerations and more are not known"
        yield PodRole(name, f"{at}.{field}", _pod(containers, part), copies, remark)


def _serves(runtime: Json, model_format: Json) -> bool:
    formats = list(_items(_object(runtime, "spec"), "supportedModelFormats"))
    return any(each.get("name") == model_format.get("name") for each in formats)


def first_inference_service(document: Json, _: Lookup) -> Iterator[PodRole]:
    """KFServing's v1alpha2."""
    for role in ("default", "canary"):
        part = _object(_object(_object(document, "spec"), role), "predictor")
        custom = _object(_object(part, "custom"), "container")
        found = [custom] if custom else [value for value in part.values() if _is_model(value)]
        if found:
            copies = max(1, _count(part, "minReplicas"))
            yield PodRole(role, f"spec.{role}.predictor", _pod(found[:1], part), copies)


def llm_inference_service(document: Json, _: Lookup) -> Iterator[PodRole]:
    """KServe: groups of `template`, with `worker` each of so many pods as the parallelism needs."""
    spec = _object(document, "spec")
    for name, part, at in (("main", spec, "spec"), ("prefill", _object(spec, "prefill"), "spec.prefill")):
        if not part:
            continue
        main, worker = _object(part, "template"), _object(part, "worker")
        copies, parallel = _count(part, "replicas", 1), _object(part, "parallelism")
        size = _count(parallel, "data", 1) // max(1, _count(parallel, "dataLocal", 1))
        if not (_count(parallel, "data") or _count(parallel, "dataLocal")):
            size = _count(parallel, "pipeline", 1)
        # With workers, the operator makes a LeaderWorkerSet.
        roles = [(name, "template", main, copies)]
        if worker and size > 1:
            roles.append((f"{name}-worker", "worker", worker, copies * (size - 1)))
        gangs = MadeGangs(size, copies, name) if len(roles) > 1 else None
        for role, field, pod, count in roles:
            containers = _containers(pod, "containers")
            if not containers:
                raise UnreadError(
                    f"{at}.{field} has no containers, which an LLMInferenceServiceConfig adds; write them "
                    "there"
                )
            yield PodRole(role, f"{at}.{field}", _pod(containers, pod), count, gangs=gangs)


def train_job(document: Json, lookup: Lookup) -> Iterator[PodRole]:
    """Kubeflow Trainer: the Jobs of a runtime; the trainer's runs on the stated number of nodes."""
    spec = _object(document, "spec")
    trainer, ref = _object(spec, "trainer"), _object(spec, "runtimeRef")
    kind, name = str(ref.get("kind") or "ClusterTrainingRuntime"), str(ref.get("name") or "")
    wanted = {"resources": trainer.get("resourcesPerNode") or {}}
    runtime = lookup(kind, name)
    if runtime is None:
        if "numNodes" not in trainer or not _devices(wanted):
            raise UnreadError(
                f"the {kind} {name} is not in the file; add it, or give spec.trainer.numNodes and GPUs in "
                "spec.trainer.resourcesPerNode.limits"
            )
        remark = (
            f"the {kind} {name} is not in the file: its node selector, its other Jobs, and whether the pods "
            "start together are not known"
        )
        node = _pod([wanted], _overrides(spec, "node"))
        yield PodRole("node", "spec.trainer", node, _count(trainer, "numNodes", 1), remark)
        return
    base = _object(runtime, "spec")
    policy = _object(base, "mlPolicy")
    nodes = _count(trainer, "numNodes", _count(policy, "numNodes", 1))
    launcher_is_node = _object(policy, "mpi").get("runLauncherAsNode") is True
    jobs, roles = list(_items(_object(_object(base, "template"), "spec"), "replicatedJobs")), []
    for job in jobs:
        role, inner = str(job.get("name") or ""), _object(_object(job, "template"), "spec")
        template = _object(inner, "template")
        pod, copies = _object(template, "spec"), _count(job, "replicas", 1) * _count(inner, "parallelism", 1)
        containers = _containers(pod, "containers")
        # By convention the container of the trainer, and the Job of its nodes, are named so.
        if any(each.get("name") == "node" for each in containers):
            containers = _with_resources(containers, "node", wanted)
        if role == "node":
            copies = nodes - launcher_is_node
        made = {**template, **_pod(containers, pod, _overrides(spec, role))}
        roles.append(PodRole(role, f"spec.runtimeRef: {kind} {name}", made, copies))
    # The Trainer makes a JobSet.
    waits = any(job.get("dependsOn") for job in jobs)
    gangs = None if waits else MadeGangs(sum(role.copies or 0 for role in roles))
    yield from (replace(role, gangs=gangs) for role in roles)


def _overrides(spec: Json, job: str) -> Json:
    """What a TrainJob changes in the pods of one of its Jobs."""
    merged: dict[str, Any] = {}
    for each in _items(spec, "podTemplateOverrides"):
        if any(target.get("name") == job for target in _items(each, "targetJobs")):
            merged |= _object(each, "spec")
    return merged


def workflow(document: Json, lookup: Lookup) -> Iterator[PodRole]:
    """Argo: one pod for each template that runs containers; how many of them run at a time, its steps say."""
    spec = _object(document, "spec")
    spec = _object(spec, "workflowSpec") or spec
    if (ref := _object(spec, "workflowTemplateRef")) and not spec.get("templates"):
        kind = "ClusterWorkflowTemplate" if ref.get("clusterScope") is True else "WorkflowTemplate"
        found = lookup(kind, str(ref.get("name")))
        if found is None:
            raise UnreadError(f"its {kind} {ref.get('name')} is not in the file; add it")
        spec = _object(found, "spec") | dict(spec)
    defaults = _object(spec, "templateDefaults")
    for i, template in enumerate(_items(spec, "templates")):
        containers = [
            *(template[key] for key in ("container", "script") if isinstance(template.get(key), dict)),
            *_containers(_object(template, "containerSet"), "containers"),
        ]
        if containers:
            containers += _containers(template, "sidecars")
            remark = "one pod for each template; its steps say how many run at a time"
            if any(each.get("podSpecPatch") for each in (spec, template)):
                remark += ", and podSpecPatch is not read"
            metadata = {**_object(spec, "podMetadata"), **_object(template, "metadata")}
            made = {"metadata": metadata, **_pod(containers, spec, defaults, template)}
            yield PodRole(str(template.get("name") or ""), f"spec.templates[{i}]", made, 1, remark)


def spark_application(document: Json, _: Lookup) -> Iterator[PodRole]:
    """Spark operator: a driver, and executors with their cores, memory and GPUs in fields of their own."""
    spec = _object(document, "spec")
    if isinstance(spec.get("template"), dict):
        spec = _object(spec, "template")  # ScheduledSparkApplication
    factor = 0.4 if spec.get("type") in ("Python", "R") else 0.1
    for name in ("driver", "server", "executor"):
        if name not in spec:
            continue
        part, copies = _object(spec, name), 1
        if name == "executor":
            dynamic = _object(spec, "dynamicAllocation")
            copies = _count(part, "instances", 1)
            if dynamic.get("enabled") is True:
                least = (_count(dynamic, "initialExecutors"), _count(dynamic, "minExecutors"))
                copies = max(*least, _count(part, "instances"))
        given = _object(part, "template")
        pod, gpu = _object(given, "spec"), _object(part, "gpu")
        memory = _jvm_mib(part.get("memory") or "1g")
        overhead = _jvm_mib(part.get("memoryOverhead") or f"{max(384, int(factor * memory))}m")
        requests = {"cpu": str(part.get("coreRequest") or part.get("cores") or 1)}
        requests["memory"] = f"{memory + overhead}Mi"
        limits = {str(gpu.get("name")): str(gpu.get("quantity"))} if gpu else {}
        containers = _containers(pod, "containers")
        resources = {"resources": {"requests": requests, "limits": limits}}
        containers = _with_resources(containers or [{}], f"spark-kubernetes-{name}", resources)
        metadata = {**_object(given, "metadata")}
        metadata |= {key: part[key] for key in ("labels", "annotations") if key in part}
        batch = {"schedulerName": spec["batchScheduler"]} if spec.get("batchScheduler") else {}
        made = {"metadata": metadata, **_pod(containers, pod, part, batch)}
        yield PodRole(name, f"spec.{name}", made, copies)


_JVM_MEMORY: Final = re.compile(r"(\d{1,12})([kmgt]?)(i?b)?", re.ASCII | re.IGNORECASE)
_BYTES: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def _jvm_mib(text: object) -> int:
    """An amount of memory as a JVM reads it: `16g` are 16 GiB."""
    found = _JVM_MEMORY.fullmatch(str(text).strip())
    if found is None:
        raise UnreadError(f"the memory {str(text)[:40]!r} cannot be read; write it such as 16g")
    # Spark takes a bare number for MiB.
    return -(-int(found[1]) * _BYTES[(found[2] or "m").lower()] // 2**20)


def dynamo(document: Json, _: Lookup) -> Iterator[PodRole]:
    """Dynamo: the services of a graph, each with resources of its own names, on one or more nodes."""
    spec = _object(document, "spec")
    services = spec.get("services")
    if isinstance(services, dict):
        parts = [(name, f"spec.services.{name}", part) for name, part in services.items()]
    elif isinstance(spec.get("components"), list):
        parts = [
            (str(part.get("name") or part.get("componentName") or ""), f"spec.components[{i}]", part)
            for i, part in enumerate(_items(spec, "components"))
        ]
    else:
        parts = [("", "spec", spec)]
    for name, at, part in parts:
        if not isinstance(part, dict):
            continue
        extra, template = _object(part, "extraPodSpec"), _object(part, "podTemplate")
        pod = _object(template, "spec") or extra
        main = {"name": "main", **_object(extra, "mainContainer")}
        containers = _containers(pod, "containers") or [main]
        if isinstance(part.get("resources"), dict):
            containers = [_merged(containers[0], {"resources": _dynamo_resources(part)}), *containers[1:]]
        copies = _count(part, "replicas", 1) * _count(_object(part, "multinode"), "nodeCount", 1)
        yield PodRole(name.lower(), at, {**template, **_pod(containers, pod)}, copies)


def _dynamo_resources(part: Json) -> Json:
    made: dict[str, dict[str, Any]] = {}
    for key in ("requests", "limits"):
        given = _object(_object(part, "resources"), key)
        plain = {name: given[name] for name in ("cpu", "memory") if given.get(name)}
        if given.get("gpu"):
            plain[str(given.get("gpuType") or "nvidia.com/gpu")] = given["gpu"]
        made[key] = plain | _object(given, "custom")
    # An extended resource needs a limit.
    made["limits"] = {name: n for name, n in made["requests"].items() if "/" in name} | made["limits"]
    return made


def nim_service(document: Json, _: Lookup) -> Iterator[PodRole]:
    """NIM operator: a Deployment with the GPUs of `spec.resources`."""
    yield _nim("", "spec", _object(document, "spec"))


def nim_pipeline(document: Json, _: Lookup) -> Iterator[PodRole]:
    """NIM operator: several NIMServices."""
    for i, each in enumerate(_items(_object(document, "spec"), "services")):
        if each.get("enabled") is not False:
            yield _nim(str(each.get("name") or ""), f"spec.services[{i}].spec", _object(each, "spec"))


def _nim(name: str, at: str, spec: Json) -> PodRole:
    if "multiNode" in spec:
        raise UnreadError(
            f"the operator computes the pods of {at}.multiNode; give the LeaderWorkerSet it makes"
        )
    if not _devices(spec):
        raise UnreadError(f"its GPUs are those of the model's profile; give them in {at}.resources.limits")
    scale = _object(spec, "scale")
    copies = _count(spec, "replicas", 1)
    if scale.get("enabled") is True:
        copies = _count(_object(scale, "hpa"), "minReplicas", 1)
    return PodRole(name, at, _pod([{"name": "main", "resources": spec["resources"]}], spec), copies)


def tekton_task(document: Json, lookup: Lookup) -> Iterator[PodRole]:
    """Tekton: one pod with a container for each step."""
    spec = _object(document, "spec")
    task = spec
    if document.get("kind") == "TaskRun":
        task, ref = _object(spec, "taskSpec"), _object(spec, "taskRef")
        if not task:
            found = lookup("Task", str(ref.get("name")))
            if found is None:
                raise UnreadError(f"its Task {ref.get('name')} is not in the file; add it")
            task = _object(found, "spec")
    default = _object(task, "stepTemplate")
    containers = [
        _merged({**default, **each}, {"resources": _step_resources(each) or _step_resources(default)})
        for each in (*_items(task, "steps"), *_items(task, "sidecars"))
    ]
    yield PodRole("", "spec.steps", _pod(containers, _object(spec, "podTemplate")))


def _step_resources(step: Json) -> Json:
    return _object(step, "computeResources") or _object(step, "resources")


def pod_clique_set(document: Json, _: Lookup) -> Iterator[PodRole]:
    """Grove: cliques of pods, and groups of cliques that are scaled together."""
    spec = _object(document, "spec")
    template, copies = _object(spec, "template"), _count(spec, "replicas", 1)
    scaled = {
        name: _count(group, "replicas", 1)
        for group in _items(template, "podCliqueScalingGroups")
        for name in group.get("cliqueNames") or ()
    }
    for i, clique in enumerate(_items(template, "cliques")):
        name, inner = str(clique.get("name") or ""), _object(clique, "spec")
        pod, at = _object(inner, "podSpec"), f"spec.template.cliques[{i}].spec.podSpec"
        count = copies * _count(inner, "replicas", 1) * scaled.get(name, 1)
        yield PodRole(name, at, _pod(_containers(pod, "containers"), pod), count)


def node_set(document: Json, _: Lookup) -> Iterator[PodRole]:
    """Slurm operator: a template with the container of slurmd beside it."""
    spec = _object(document, "spec")
    template, slurmd = _object(spec, "template"), _object(spec, "slurmd")
    pod = _object(template, "spec")
    containers = [*([{"name": "slurmd", **slurmd}] if slurmd else []), *_containers(pod, "containers")]
    each_node = str(spec.get("scalingMode")).lower() == "daemonset"
    copies = None if each_node else _count(spec, "replicas", 1)
    yield PodRole("", "spec.slurmd", {**template, **_pod(containers, pod)}, copies)


def volcano_job(document: Json, _: Lookup) -> Iterator[PodRole]:
    """Volcano: a template for each task; pods that name no scheduler have that of the Job."""
    spec = _object(document, "spec")
    scheduler = spec.get("schedulerName") or "volcano"
    for i, task in enumerate(_items(spec, "tasks")):
        template = _object(task, "template")
        made = {**template, "spec": {"schedulerName": scheduler, **_object(template, "spec")}}
        copies = _count(task, "replicas", 1)
        yield PodRole(str(task.get("name") or ""), f"spec.tasks[{i}].template", made, copies)


def mini_cluster(document: Json, _: Lookup) -> Iterator[PodRole]:
    """Flux operator: `size` pods of all its containers."""
    spec = _object(document, "spec")
    containers = _containers(spec, "containers")
    yield PodRole("", "spec", _pod(containers, _object(spec, "pod")), _count(spec, "size", 1))


_FRAMEWORKS: Final = (
    *("model", "huggingface", "triton", "pytorch", "tensorflow", "onnx", "sklearn", "xgboost", "lightgbm"),
    *("paddle", "pmml", "mlflow"),
)
_KSERVE, _ARGO, _SPARK, _TEKTON = "serving.kserve.io", "argoproj.io", "sparkoperator.k8s.io", "tekton.dev"
_KINDS: Final[Mapping[tuple[str, str], Callable[[Json, Lookup], Iterator[PodRole]]]] = {
    (_KSERVE, "InferenceService"): inference_service,
    (_KSERVE, "LLMInferenceService"): llm_inference_service,
    ("serving.kubeflow.org", "InferenceService"): first_inference_service,
    ("trainer.kubeflow.org", "TrainJob"): train_job,
    (_ARGO, "Workflow"): workflow,
    (_ARGO, "WorkflowTemplate"): workflow,
    (_ARGO, "ClusterWorkflowTemplate"): workflow,
    (_ARGO, "CronWorkflow"): workflow,
    (_SPARK, "SparkApplication"): spark_application,
    (_SPARK, "ScheduledSparkApplication"): spark_application,
    (_SPARK, "SparkConnect"): spark_application,
    ("nvidia.com", "DynamoGraphDeployment"): dynamo,
    ("nvidia.com", "DynamoComponentDeployment"): dynamo,
    ("apps.nvidia.com", "NIMService"): nim_service,
    ("apps.nvidia.com", "NIMPipeline"): nim_pipeline,
    (_TEKTON, "Task"): tekton_task,
    (_TEKTON, "ClusterTask"): tekton_task,
    (_TEKTON, "TaskRun"): tekton_task,
    ("slinky.slurm.net", "NodeSet"): node_set,
    ("grove.io", "PodCliqueSet"): pod_clique_set,
    ("batch.volcano.sh", "Job"): volcano_job,
    ("flux-framework.org", "MiniCluster"): mini_cluster,
}
_NONE: Final = "it makes no pods by itself"
_RUNTIME: Final = f"{_NONE}; give the {{}} that names it"
# Kinds whose fields would be misread as pod templates, or whose pods follow from something else.
_WITHOUT_PODS: Final[Mapping[tuple[str, str], str]] = {
    (_KSERVE, "ServingRuntime"): _RUNTIME.format("InferenceService"),
    (_KSERVE, "ClusterServingRuntime"): _RUNTIME.format("InferenceService"),
    (_KSERVE, "LLMInferenceServiceConfig"): _RUNTIME.format("LLMInferenceService"),
    ("trainer.kubeflow.org", "TrainingRuntime"): _RUNTIME.format("TrainJob"),
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"): _RUNTIME.format("TrainJob"),
    ("kueue.x-k8s.io", "Workload"): f"{_NONE}; give the Job that owns it",
    (_TEKTON, "Pipeline"): "its pods are those of Tasks; give these",
    (_TEKTON, "PipelineRun"): "its pods are those of Tasks; give these",
    ("apps.nvidia.com", "NIMCache"): "the operator computes its Job; give that",
    ("nvidia.com", "DynamoGraphDeploymentRequest"): "its profiler computes a graph; give that",
    ("kubevirt.io", "VirtualMachine"): "KubeVirt computes its pod virt-launcher; give that",
    ("kubevirt.io", "VirtualMachineInstance"): "KubeVirt computes its pod virt-launcher; give that",
    ("kaito.sh", "Workspace"): "its operator computes the pods; give the StatefulSet or Deployment it makes",
    ("kubeai.org", "Model"): "its operator computes the pods; give those it makes",
    ("flink.apache.org", "FlinkDeployment"): "its operator computes the TaskManagers; give the Deployments",
    ("spark.apache.org", "SparkApplication"): "its pods follow from spec.sparkConf; give pods of that size",
}
# Of a pod's spec, what describes no container.
_POD_FIELDS: Final = (
    *("nodeSelector", "affinity", "tolerations", "schedulerName", "priority", "priorityClassName"),
    *("preemptionPolicy", "topologySpreadConstraints", "overhead", "volumes", "schedulingGates"),
    *("resourceClaims", "activeDeadlineSeconds", "initContainers", "nodeName", "runtimeClassName"),
)


def _pod(containers: Iterable[Json], *specs: Json) -> Json:
    """A pod template with these containers, and of these specs the fields of a pod, later ones first."""
    fields = {key: spec[key] for spec in specs for key in _POD_FIELDS if key in spec}
    named = [
        {**each, "name": each.get("name") or ("main" if i == 0 else f"main-{i}")}
        for i, each in enumerate(containers)
    ]
    return {"spec": {**fields, "containers": named}}


def _with_resources(containers: Iterable[Json], name: str, of: Json) -> list[Json]:
    """The containers, with these resources in the one of that name, or in the first."""
    found = list(containers)
    i = next((i for i, each in enumerate(found) if each.get("name") == name), 0)
    return [_merged(each, of) if at == i else each for at, each in enumerate(found)]


def _merged(container: Json, of: Json) -> Json:
    ours, theirs = _object(container, "resources"), _object(of, "resources")
    merged = {key: {**_object(ours, key), **_object(theirs, key)} for key in ("requests", "limits")}
    return {**container, "resources": {**ours, **theirs, **merged}}


def _devices(container: Json) -> bool:
    """Whether resources have more than what every container has."""
    resources = _object(container, "resources")
    names = {*_object(resources, "limits"), *_object(resources, "requests")}
    return any("/" in name for name in names) or bool(resources.get("claims"))


def _is_model(value: object) -> bool:
    return isinstance(value, dict) and ("resources" in value or "storageUri" in value)


def _containers(value: Json, key: str) -> list[Json]:
    return list(_items(value, key))


def _items(value: Json, key: str) -> Iterator[Json]:
    found = value.get(key)
    return (each for each in (found if isinstance(found, list) else ()) if isinstance(each, dict))


def _object(value: Json, key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _count(value: Json, key: str, default: int = 0) -> int:
    found = value.get(key)
    return max(0, found) if isinstance(found, int) and not isinstance(found, bool) else default
