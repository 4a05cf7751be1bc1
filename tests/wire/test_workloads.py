"""Workloads that describe their pods in another form than templates: their pods, or what is missing."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from scheduler_ext.core.errors import InventoryError
from scheduler_ext.wire import kube
from scheduler_ext.wire.manifests import Manifest, every_pod
from scheduler_ext.wire.objects import read_manifests

GPU = "limits: {nvidia.com/gpu: 1}"
TEMPLATE = "{spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 8}}}]}}"


def document(kind: str, spec: str, more: str = "") -> str:
    """An object w of `group/version/Kind`."""
    api_version, _, name = kind.rpartition("/")
    return f"{{apiVersion: {api_version}, kind: {name}, metadata: {{name: w{more}}}, spec: {spec}}}"


def read(*documents: str) -> list[Manifest]:
    return read_manifests("\n---\n".join(documents).encode())


def text(quantity: msgspec.Raw) -> str:
    """A quantity as it was written."""
    return str(json.loads(bytes(quantity)))


def gpus(pod: kube.Pod) -> int:
    assert pod.spec is not None
    found = 0
    for container in pod.spec.containers or ():
        limits = (container.resources.limits if container and container.resources else None) or {}
        found += sum(int(text(n)) for name, n in limits.items() if "gpu" in name)
    return found


def pods_of(*documents: str) -> list[tuple[str, int | None, int]]:
    """The pods of objects: name, number and GPUs of each."""
    return [(each.name, each.copies, gpus(each.pod)) for each in read(*documents)]


ISVC, LLM = "serving.kserve.io/v1beta1/InferenceService", "serving.kserve.io/v1alpha1/LLMInferenceService"
RUNTIME = document(
    "serving.kserve.io/v1alpha1/ServingRuntime",
    "{supportedModelFormats: [{name: f}], tolerations: [{operator: Exists}], containers:"
    " [{name: other}, {name: kserve-container, resources: {limits: {nvidia.com/gpu: 2, cpu: 4}}}]}",
)
TRAIN, SPARK = "trainer.kubeflow.org/v1alpha1/TrainJob", "sparkoperator.k8s.io/v1beta2/SparkApplication"
TRAINING_RUNTIME = document(
    "trainer.kubeflow.org/v1alpha1/ClusterTrainingRuntime",
    "{mlPolicy: {numNodes: 3}, template: {spec: {replicatedJobs: [{name: node, template: {spec: {template:"
    " {spec: {containers: [{name: node, resources: {limits: {nvidia.com/gpu: 2}}}]}}}}}]}}}",
)
WORKFLOW, DYNAMO = "argoproj.io/v1alpha1/Workflow", "nvidia.com/v1alpha1/DynamoGraphDeployment"
NIM, NODE_SET = "apps.nvidia.com/v1alpha1/NIMService", "slinky.slurm.net/v1beta1/NodeSet"
RAY, KATIB = "ray.io/v1/RayCluster", "kubeflow.org/v1beta1/Experiment"
JOB = f"{{apiVersion: batch/v1, kind: Job, spec: {{template: {TEMPLATE}}}}}"


def ray(fields: str) -> str:
    return document(RAY, f"{{workerGroupSpecs: [{{groupName: g, template: {TEMPLATE}, {fields}}}]}}")


READ = [
    pytest.param(
        [document(ISVC, f"{{predictor: {{minReplicas: 2, containers: [{{resources: {{{GPU}}}}}]}}}}")],
        [("w", 2, 1)],
        id="containers of a predictor",
    ),
    pytest.param(
        [document(ISVC, f"{{predictor: {{minReplicas: 0, model: {{resources: {{{GPU}}}}}}}}}")],
        [("w", 1, 1)],
        id="a model with GPUs of its own, which starts with one pod",
    ),
    pytest.param(
        [document(ISVC, "{predictor: {model: {runtime: w}}}"), RUNTIME],
        [("w", 1, 2)],
        id="a model whose runtime is in the file, and counts once",
    ),
    pytest.param(
        [
            document(ISVC, f"{{predictor: {{model: {{modelFormat: {{name: f}}, resources: {{{GPU}}}}}}}}}"),
            RUNTIME,
        ],
        [("w", 1, 1)],
        id="a model has other GPUs than the only runtime for its format",
    ),
    pytest.param(
        [
            document(
                ISVC,
                f"{{predictor: {{triton: {{resources: {{{GPU}}}}}}}, transformer: {{containers: [{{}}]}}}}",
            )
        ],
        [("w-predictor", 1, 1), ("w-transformer", 1, 0)],
        id="a predictor by its framework, and a transformer",
    ),
    pytest.param(
        [
            document(
                "serving.kubeflow.org/v1alpha2/InferenceService",
                f"{{default: {{predictor: {{custom: {{container: {{resources: {{{GPU}}}}}}}}}}}}}",
            )
        ],
        [("w", 1, 1)],
        id="an InferenceService of KFServing",
    ),
    pytest.param(
        [
            document(
                LLM,
                "{replicas: 2, parallelism: {data: 16, dataLocal: 4},"
                " template: {containers: [{resources: {limits: {nvidia.com/gpu: 8}}}]},"
                " worker: {containers: [{resources: {limits: {nvidia.com/gpu: 8}}}]},"
                f" prefill: {{template: {{containers: [{{resources: {{{GPU}}}}}]}}}}}}",
            )
        ],
        [("w-main", 2, 8), ("w-main-worker", 6, 8), ("w-prefill", 1, 1)],
        id="groups by data parallelism, and a prefill",
    ),
    pytest.param(
        [
            document(
                TRAIN, f"{{runtimeRef: {{name: r}}, trainer: {{numNodes: 4, resourcesPerNode: {{{GPU}}}}}}}"
            )
        ],
        [("w", 4, 1)],
        id="a TrainJob that has all numbers itself",
    ),
    pytest.param(
        [document(TRAIN, "{runtimeRef: {name: w}}"), TRAINING_RUNTIME],
        [("w", 3, 2)],
        id="a TrainJob with the numbers of its runtime",
    ),
    pytest.param(
        [
            document(
                TRAIN, f"{{runtimeRef: {{name: w}}, trainer: {{numNodes: 2, resourcesPerNode: {{{GPU}}}}}}}"
            ),
            TRAINING_RUNTIME,
        ],
        [("w", 2, 1)],
        id="a TrainJob with other numbers than its runtime",
    ),
    pytest.param(
        [
            document(
                WORKFLOW,
                "{templates: [{name: main, dag: {tasks: []}},"
                f" {{name: a, container: {{resources: {{{GPU}}}}}, sidecars: [{{name: s}}]}},"
                f" {{name: b, script: {{name: '', resources: {{limits: {{nvidia.com/gpu: 2}}}}}}}},"
                " {name: c, containerSet: {containers: [{name: x},"
                f" {{name: y, resources: {{{GPU}}}}}]}}}}]}}",
            )
        ],
        [("w-a", 1, 1), ("w-b", 1, 2), ("w-c", 1, 1)],
        id="a Workflow has a pod for each template with containers",
    ),
    pytest.param(
        [
            document(WORKFLOW, "{workflowTemplateRef: {name: w}}"),
            document(
                "argoproj.io/v1alpha1/WorkflowTemplate",
                f"{{templates: [{{name: a, container: {{resources: {{{GPU}}}}}}}]}}",
            ),
        ],
        [("w", 1, 1)],
        id="a Workflow of a template of the file, which counts once",
    ),
    pytest.param(
        [
            document(
                SPARK,
                "{driver: {memory: 4g}, executor: {instances: 4, cores: 4,"
                " gpu: {name: nvidia.com/gpu, quantity: 2}}}",
            )
        ],
        [("w-driver", 1, 0), ("w-executor", 4, 2)],
        id="a SparkApplication",
    ),
    pytest.param(
        [
            document(
                "sparkoperator.k8s.io/v1beta2/ScheduledSparkApplication",
                "{template: {executor: {gpu: {name: nvidia.com/gpu, quantity: 1}, instances: 2},"
                " dynamicAllocation: {enabled: true, minExecutors: 3}}}",
            )
        ],
        [("w", 3, 1)],
        id="a SparkApplication on a schedule starts with the least executors",
    ),
    pytest.param(
        [
            document(
                DYNAMO,
                "{services: {Frontend: {}, Decode: {replicas: 2, multinode: {nodeCount: 3}, resources:"
                " {limits: {gpu: '4'}}, extraPodSpec: {mainContainer: {image: x}}}}}",
            )
        ],
        [("w-frontend", 1, 0), ("w-decode", 6, 4)],
        id="services of Dynamo on several nodes",
    ),
    pytest.param([document(NIM, f"{{replicas: 2, resources: {{{GPU}}}}}")], [("w", 2, 1)], id="a NIMService"),
    pytest.param(
        [document(NIM, f"{{scale: {{enabled: true, hpa: {{minReplicas: 3}}}}, resources: {{{GPU}}}}}")],
        [("w", 3, 1)],
        id="a NIMService that is scaled",
    ),
    pytest.param(
        [
            document(
                "apps.nvidia.com/v1alpha1/NIMPipeline",
                f"{{services: [{{name: a, spec: {{resources: {{{GPU}}}}}}}, {{name: b, enabled: false}}]}}",
            )
        ],
        [("w", 1, 1)],
        id="the enabled services of a NIMPipeline",
    ),
    pytest.param(
        [
            document(
                "tekton.dev/v1/Task", f"{{steps: [{{name: a, computeResources: {{{GPU}}}}}, {{name: b}}]}}"
            )
        ],
        [("w", 1, 1)],
        id="a Task with its steps in one pod",
    ),
    pytest.param(
        [document(NODE_SET, f"{{replicas: 2, slurmd: {{resources: {{{GPU}}}}}, template: {{spec: {{}}}}}}")],
        [("w", 2, 1)],
        id="a NodeSet of Slurm",
    ),
    pytest.param(
        [
            document(
                "grove.io/v1alpha1/PodCliqueSet",
                f"{{replicas: 2, template: {{cliques: [{{name: a, spec: {{replicas: 3, podSpec: {{containers:"
                f" [{{resources: {{{GPU}}}}}]}}}}}}],"
                " podCliqueScalingGroups: [{cliqueNames: [a], replicas: 2}]}}",
            )
        ],
        [("w", 12, 1)],
        id="cliques that are scaled together",
    ),
    pytest.param(
        [
            document(
                "workload.codeflare.dev/v1beta2/AppWrapper",
                f"{{components: [{{template: {document(NIM, f'{{replicas: 2, resources: {{{GPU}}}}}')}}}]}}",
            )
        ],
        [("w", 2, 1)],
        id="a workload inside of another object",
    ),
    pytest.param([ray("replicas: 9, maxReplicas: 3, numOfHosts: 2")], [("w", 6, 8)], id="Ray: at most"),
    pytest.param([ray("minReplicas: 2")], [("w", 2, 8)], id="Ray: at least, which is 0 by default"),
    pytest.param([ray("replicas: 2, suspend: true")], [("w", 0, 8)], id="Ray: suspended workers"),
    pytest.param(
        [
            document(
                "serving.knative.dev/v1/Service",
                "{template: {metadata: {annotations: {autoscaling.knative.dev/min-scale: '3'}},"
                " spec: {containers: [{name: c}]}}}",
            )
        ],
        [("w", 3, 0)],
        id="Knative: the least number",
    ),
    pytest.param(
        [document("apps.kruise.io/v1alpha1/BroadcastJob", f"{{template: {TEMPLATE}}}")],
        [("w", None, 8)],
        id="a BroadcastJob runs on each node",
    ),
    pytest.param(
        [
            document("apps/v1/Deployment", f"{{replicas: 3, template: {TEMPLATE}}}"),
            document(
                "apps/v1/ReplicaSet",
                f"{{replicas: 3, template: {TEMPLATE}}}",
                ", ownerReferences: [{kind: Deployment, name: w, uid: u, controller: true}]",
            ),
        ],
        [("w", 3, 8)],
        id="an object and its controller count once",
    ),
    pytest.param(
        [document(KATIB, f"{{parallelTrialCount: 4, trialTemplate: {{trialSpec: {JOB}}}}}")],
        [("w", 4, 8)],
        id="as many trials as an Experiment runs at once",
    ),
    pytest.param(
        [document(KATIB, f"{{maxTrialCount: 2, trialTemplate: {{trialSpec: {JOB}}}}}")],
        [("w", 2, 8)],
        id="no more trials at once than an Experiment wants",
    ),
    pytest.param(
        [
            document(
                "kubernetes.dask.org/v1/DaskCluster",
                f"{{worker: {{replicas: 3, {TEMPLATE[1:]}, scheduler: {{spec: {{containers: [{{}}]}}}}}}",
            )
        ],
        [("w-worker", 3, 8), ("w-scheduler", 1, 0)],
        id="replicas beside the description of pods",
    ),
    pytest.param(
        [
            document(
                "flux-framework.org/v1alpha2/MiniCluster",
                f"{{size: 4, containers: [{{resources: {{{GPU}}}}}]}}",
            )
        ],
        [("w", 4, 1)],
        id="the size of a MiniCluster of Flux",
    ),
    *(
        pytest.param(
            [
                document(
                    "serving.knative.dev/v1/Service",
                    f"{{template: {{metadata: {{annotations: {{autoscaling.knative.dev/{key}: '3'}}}},"
                    f" {TEMPLATE[1:]}}}",
                )
            ],
            [("w", 3, 8)],
            id=f"the least number of pods of a Service of Knative by {key}",
        )
        for key in ("min-scale", "minScale")
    ),
]


@pytest.mark.parametrize(("documents", "expected"), READ)
def test_a_workload_has_the_pods_that_its_operator_makes(
    documents: list[str], expected: list[tuple[str, int | None, int]]
) -> None:
    assert pods_of(*documents) == expected


UNREAD = [
    (
        document(ISVC, "{predictor: {model: {runtime: r}}}"),
        "InferenceService w: spec.predictor.model has no GPUs, and the ServingRuntime r is not in the file; "
        "add it, or GPUs in spec.predictor.model.resources.limits",
    ),
    (document(ISVC, "{predictor: {model: {}, workerSpec: {}}}"), "give the Deployments that it makes"),
    (document(LLM, "{template: {}}"), "LLMInferenceService w: spec.template has no containers"),
    (
        document(TRAIN, "{runtimeRef: {name: r}}"),
        "TrainJob w: the ClusterTrainingRuntime r is not in the file; add it, or give spec.trainer.numNodes",
    ),
    (document(WORKFLOW, "{workflowTemplateRef: {name: t}}"), "its WorkflowTemplate t is not in the file"),
    (document(SPARK, "{driver: {memory: lots}}"), "the memory 'lots' cannot be read; write it such as 16g"),
    (document(NIM, "{}"), "give them in spec.resources.limits"),
    (document(NIM, f"{{multiNode: {{}}, resources: {{{GPU}}}}}"), "give the LeaderWorkerSet it makes"),
    (document("tekton.dev/v1/TaskRun", "{taskRef: {name: t}}"), "its Task t is not in the file; add it"),
    (RUNTIME, "ServingRuntime w: it makes no pods by itself; give the InferenceService that names it"),
    (document("kubevirt.io/v1/VirtualMachine", "{}"), "VirtualMachine w: KubeVirt computes its pod"),
    (
        document("ml.example.com/v1/Model", "{gpus: 4}"),
        "Model w has no pod template with containers: if it makes pods, give these",
    ),
]


@pytest.mark.parametrize(("text", "problem"), UNREAD)
def test_an_object_that_does_not_say_its_pods_is_named_with_what_to_give(text: str, problem: str) -> None:
    with pytest.raises(InventoryError) as caught:
        read(text)
    assert problem in str(caught.value)
    beside = document("batch/v1/Job", f"{{template: {TEMPLATE}}}").replace("name: w", "name: job")
    (job,) = read(beside, text)
    assert [note for note in job.notes() if problem in note] == (
        [] if "by itself" in problem else [job.unread[0]]
    )


def test_settings_of_nodes_beside_a_workload_are_no_workloads() -> None:
    job = document("batch/v1/Job", f"{{template: {TEMPLATE}}}")
    others = "nvidia.com/v1/ClusterPolicy", "kueue.x-k8s.io/v1beta2/ClusterQueue"
    (found,) = read(job, *(document(kind, "{limits: {nvidia.com/gpu: 8}}") for kind in others))
    assert found.unread == ()


def test_executors_request_their_memory_with_its_overhead() -> None:
    spec = "{{type: {}, executor: {{cores: 2, memory: {}, instances: 1}}}}"
    amounts = []
    for kind, memory in (("Scala", "16g"), ("Python", "10g"), ("Scala", "512m")):
        (executor,) = read(document(SPARK, spec.format(kind, memory)))
        assert executor.pod.spec is not None
        assert executor.pod.spec.containers is not None
        (container,) = executor.pod.spec.containers
        assert container is not None
        assert container.resources is not None
        amounts.append(text(dict(container.resources.requests or {})["memory"]))
    # 10 % of 16 GiB; 40 % of 10 GiB, which is no JVM's alone; at least 384 MiB.
    assert amounts == ["18022Mi", "14336Mi", "896Mi"]


@pytest.mark.parametrize(
    ("text", "scheduler"),
    [
        (document("batch.volcano.sh/v1alpha1/Job", f"{{tasks: [{{template: {TEMPLATE}}}]}}"), "volcano"),
        (
            document(
                "batch.volcano.sh/v1alpha1/Job", f"{{schedulerName: own, tasks: [{{template: {TEMPLATE}}}]}}"
            ),
            "own",
        ),
        (document(SPARK, "{batchScheduler: yunikorn, executor: {schedulerName: other}}"), "yunikorn"),
        (document(SPARK, "{executor: {schedulerName: other}}"), "other"),
    ],
)
def test_a_pod_of_a_workload_has_the_scheduler_that_its_operator_writes(text: str, scheduler: str) -> None:
    (found,) = read(text)
    assert found.pod.spec is not None
    assert found.pod.spec.scheduler_name == scheduler


def test_a_pod_of_a_workload_has_the_wishes_of_its_role() -> None:
    """Node selectors and tolerations, also those of the runtime."""
    (found,) = read(document(ISVC, "{predictor: {nodeSelector: {a: b}, model: {runtime: w}}}"), RUNTIME)
    assert found.pod.spec is not None
    assert found.pod.spec.node_selector == {"a": "b"}
    assert [each.operator for each in found.pod.spec.tolerations or ()] == ["Exists"]


LWS, VOLCANO = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", "batch.volcano.sh/v1alpha1/Job"
GANG, SIZE = "gpu.scheduler-ext.io/gang", "gpu.scheduler-ext.io/gang-size"
PYTORCH = "kubeflow.org/v1/PyTorchJob"


def lws(fields: str, more: str = "") -> str:
    groups = f"leaderWorkerTemplate: {{size: 2, leaderTemplate: {TEMPLATE}, workerTemplate: {TEMPLATE}}}"
    return document(LWS, f"{{replicas: 2, {groups}, {fields}}}", more)


def pytorch(policy: str = "", template: str = TEMPLATE) -> str:
    roles = f"pytorchReplicaSpecs: {{Worker: {{replicas: 3, template: {template}}}}}"
    return document(PYTORCH, f"{{{roles}, {policy}}}")


def volcano(fields: str) -> str:
    return document(VOLCANO, f"{{tasks: [{{name: t, replicas: 3, template: {TEMPLATE}}}], {fields}}}")


GANGS = [
    (pytorch(), ["w/3"] * 3, "a gang of 3 pods where gangs are turned on"),
    (pytorch("runPolicy: {schedulingPolicy: {minAvailable: 2}}"), ["w/2"] * 3, "a gang of 2 pods"),
    (
        pytorch(template=f"{{metadata: {{annotations: {{{GANG}: x, {SIZE}: '2'}}}}, {TEMPLATE[1:]}"),
        ["x/2"] * 3,
        "",
    ),
    (lws(""), ["w-0/2", "w-1/2", "w-0/2", "w-1/2"], "2 gangs of 2 pods each where gangs are turned on"),
    (
        document(LWS, f"{{replicas: 2, leaderWorkerTemplate: {{size: 2, workerTemplate: {TEMPLATE}}}}}"),
        ["w-0/2", "w-0/2", "w-1/2", "w-1/2"],
        "2 gangs of 2 pods",
    ),
    (lws("startupPolicy: LeaderReady"), [None] * 4, "no gang (with startupPolicy LeaderReady"),
    (
        lws("", ", annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: rack}"),
        [None] * 4,
        "no gang (with exclusive-topology",
    ),
    (volcano("minAvailable: 2"), ["w/2"] * 3, "a gang of 2 pods for Volcano; with kube-scheduler"),
    (volcano("queue: q"), ["w/3"] * 3, "a gang of 3 pods for Volcano"),
    (
        volcano("schedulerName: gpu-scheduler"),
        [None] * 3,
        "no gang (minAvailable is for the scheduler volcano)",
    ),
    (ray("replicas: 2"), [None] * 2, "no gang (no object says how many start together)"),
    (
        document(
            "jobset.x-k8s.io/v1alpha2/JobSet",
            f"{{replicatedJobs: [{{name: a, replicas: 2, template: {{spec: {{template: {TEMPLATE}}}}}}}]}}",
        ),
        ["w/2"] * 2,
        "a gang of 2 pods",
    ),
    (
        document(
            "jobset.x-k8s.io/v1alpha2/JobSet",
            "{startupPolicy: {startupPolicyOrder: InOrder}, replicatedJobs: "
            f"[{{name: a, replicas: 2, template: {{spec: {{template: {TEMPLATE}}}}}}}]}}",
        ),
        [None] * 2,
        "no gang (its Jobs wait for each other)",
    ),
    (
        document(KATIB, f"{{parallelTrialCount: 2, trialTemplate: {{trialSpec: {pytorch()}}}}}"),
        ["w-0/3"] * 3 + ["w-1/3"] * 3,
        "2 gangs of 3 pods each",
    ),
    (
        document(
            DYNAMO, "{services: {d: {multinode: {nodeCount: 2}, resources: {limits: {gpu: '8'}}}, f: {}}}"
        ),
        [None] * 3,
        "no gang (Grove's PodGang is for the scheduler KAI)",
    ),
    (document("apps/v1/Deployment", f"{{replicas: 2, template: {TEMPLATE}}}"), [None] * 2, ""),
]


@pytest.mark.parametrize(("text", "expected", "note"), GANGS)
def test_pods_of_a_workload_are_gangs_where_their_controller_makes_them_one(
    text: str, expected: list[str | None], note: str
) -> None:
    manifests = read(text)
    found: list[str | None] = []
    for pod in every_pod(manifests):
        annotations: dict[str, Any] = dict((pod.metadata.annotations if pod.metadata else None) or {})
        found.append(f"{annotations[GANG]}/{annotations[SIZE]}" if GANG in annotations else None)
    assert found == expected
    gangs = [each for manifest in manifests for each in manifest.notes() if "gang" in each]
    assert all(note in each for each in gangs)
    assert bool(gangs) == bool(note)
