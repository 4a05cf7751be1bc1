"""The gang of a pod, from annotations and from the labels of other projects."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.core.request.gang_request import GATE, GangKey, GangRequest, InvalidGang, OnDeadline
from scheduler_ext.wire import kube
from scheduler_ext.wire.gang_groups import declared_group
from scheduler_ext.wire.gangs import DeclaredGroup, GroupKey, max_duration_s, read_gang_request
from tests.wire.decoded_pods import decoded

OURS = "gpu.scheduler-ext.io/"
ZONE = "topology.kubernetes.io/zone"


def pod(
    annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, **spec: Any
) -> kube.Pod:
    metadata = {"name": "p", "namespace": "ml", "annotations": annotations or {}, "labels": labels or {}}
    return decoded({"metadata": metadata, "spec": spec})


def ours(**fields: str) -> dict[str, str]:
    return {OURS + key.replace("_", "-"): value for key, value in fields.items()}


def key(source: str, name: str) -> GangKey:
    return GangKey("ml", source, name)


LWS = {"leaderworkerset.sigs.k8s.io/name": "llm", "leaderworkerset.sigs.k8s.io/group-index": "1"}
LWS_OF_3 = {"leaderworkerset.sigs.k8s.io/size": "3"}
JOBSET_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
KUEUE = {"kueue.x-k8s.io/pod-group-name": "g"}
JOBSET = {"jobset.sigs.k8s.io/jobset-name": "train"}
KUBEFLOW = {"training.kubeflow.org/job-name": "bert"}


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(pod(), None, id="a pod alone"),
        pytest.param(pod(ours(gang="t", gang_size="8")), GangRequest(key("gang", "t"), 8), id="annotations"),
        pytest.param(
            pod(ours(gang_size="8"), ours(gang="t")), GangRequest(key("gang", "t"), 8), id="one of each"
        ),
        pytest.param(pod(ours(gang="t", gang_size="1")), None, id="a gang of one is a pod alone"),
        pytest.param(
            pod(
                ours(
                    gang="t",
                    gang_size="8",
                    gang_required_topology=ZONE,
                    gang_preferred_topology="node-pool",
                    gang_deadline="2m30s",
                    gang_on_deadline="hold",
                )
            ),
            GangRequest(key("gang", "t"), 8, ZONE, "node-pool", 150.0, OnDeadline.HOLD),
            id="all wishes",
        ),
        pytest.param(
            pod(LWS_OF_3 | {"leaderworkerset.sigs.k8s.io/exclusive-topology": ZONE}, LWS),
            None,
            id="a LeaderWorkerSet that creates its workers once the leader has a node",
        ),
        pytest.param(
            pod(LWS_OF_3, LWS),
            GangRequest(key("LeaderWorkerSet", "llm-1"), 3),
            id="a group of a LeaderWorkerSet",
        ),
        pytest.param(
            pod(
                {
                    "kueue.x-k8s.io/pod-group-total-count": "4",
                    "kueue.x-k8s.io/podset-required-topology": ZONE,
                },
                KUEUE,
            ),
            GangRequest(key("Kueue pod group", "g"), 4, ZONE),
            id="a pod group of Kueue, with its topology",
        ),
        pytest.param(pod(labels=JOBSET), None, id="a JobSet's pods do not say how many they are"),
        pytest.param(
            pod(ours(gang_size="6"), JOBSET),
            GangRequest(key("JobSet", "train"), 6),
            id="a JobSet with the number as an annotation",
        ),
        pytest.param(
            pod(ours(gang_size="6"), KUBEFLOW),
            GangRequest(key("training job", "bert"), 6),
            id="a job of Kubeflow's training operator",
        ),
        pytest.param(
            pod(ours(gang="mine", gang_size="2"), JOBSET),
            GangRequest(key("gang", "mine"), 2),
            id="annotations come before other projects",
        ),
        pytest.param(
            pod(ours(gang_size="2"), schedulingGroup={"podGroupName": "workers-0"}),
            GangRequest(key("PodGroup", "workers-0"), 2),
            id="a PodGroup of Kubernetes",
        ),
        pytest.param(
            pod(
                ours(gang_size="2"),
                workloadRef={"name": "train", "podGroup": "workers", "podGroupReplicaKey": "0"},
            ),
            GangRequest(key("Workload", "train/workers/0"), 2),
            id="a Workload of Kubernetes 1.35",
        ),
    ],
)
def test_a_pod_says_which_gang_it_belongs_to(of: kube.Pod, expected: GangRequest | None) -> None:
    assert read_gang_request(of) == expected


@pytest.mark.parametrize(
    ("of", "message"),
    [
        pytest.param(
            pod(ours(gang="t")),
            f"annotation {OURS}gang names the gang t, but not how many pods it has; add the "
            f'annotation {OURS}gang-size, such as "8", to all of them',
            id="no size",
        ),
        pytest.param(
            pod(ours(gang_size="8")),
            f"annotation {OURS}gang-size without a gang; name it with the annotation "
            f"{OURS}gang, the same for all of its pods",
            id="no name",
        ),
        pytest.param(
            pod(ours(gang="t", gang_size="00000000199999")),
            f"annotation {OURS}gang-size: '00000000199999' is no number of pods from 1 to 1000",
            id="too many pods behind zeros",
        ),
        pytest.param(
            pod(ours(gang="t", gang_size="0" * 5000 + "1")),
            f"annotation {OURS}gang-size: '{'0' * 77}...' is no number of pods from 1 to 1000",
            id="more digits than a number may have",
        ),
        pytest.param(
            pod(ours(gang="a b", gang_size="2")),
            f"annotation {OURS}gang: 'a b' is no name; use letters, digits, '-', '_' and '.', at "
            "most 253 of them",
            id="a name with a space",
        ),
        pytest.param(
            pod(ours(gang="t", gang_size="2", gang_required_topology="a zone")),
            f"annotation {OURS}gang-required-topology: 'a zone' is no label key of nodes; use "
            "one such as topology.kubernetes.io/zone, or node-pool",
            id="no label key",
        ),
        pytest.param(
            pod(ours(gang="t", gang_size="2", gang_deadline="soon")),
            f"annotation {OURS}gang-deadline: 'soon' is no duration; write one such as 150s, 2m30s or 500ms",
            id="no duration",
        ),
        pytest.param(
            pod(ours(gang="t", gang_size="2", gang_on_deadline="cry")),
            f"annotation {OURS}gang-on-deadline: 'cry' must be evict or hold",
            id="an unknown policy",
        ),
        pytest.param(
            pod(ours(gang="t", gang_size="2"), ours(gang="u")),
            f"annotation {OURS}gang is 't' and the label of the same name 'u'; keep one of them",
            id="a label that says otherwise",
        ),
        pytest.param(
            pod(labels=JOBSET, schedulingGates=[{"name": GATE}]),
            "label jobset.sigs.k8s.io/jobset-name names the JobSet train, but not how many pods it has; "
            f'add the annotation {OURS}gang-size, such as "8", to all of them',
            id="a pod behind the gate that nothing else would explain",
        ),
    ],
)
def test_a_bad_value_is_named_with_its_fix(of: kube.Pod, message: str) -> None:
    assert read_gang_request(of) == InvalidGang(message)


@pytest.mark.parametrize(
    ("of", "declared", "expected"),
    [
        pytest.param(
            pod(labels=JOBSET),
            DeclaredGroup(6),
            GangRequest(key("JobSet", "train"), 6),
            id="the object's size",
        ),
        pytest.param(
            pod(ours(gang_size="4"), JOBSET),
            DeclaredGroup(6),
            GangRequest(key("JobSet", "train"), 4),
            id="an annotation comes before the object",
        ),
        pytest.param(pod(labels=JOBSET), DeclaredGroup(None), None, id="a group whose pods start one by one"),
        pytest.param(
            pod({JOBSET_EXCLUSIVE: ZONE}, JOBSET),
            DeclaredGroup(6),
            None,
            id="a JobSet whose first pod has to have a node before the others are admitted",
        ),
        pytest.param(
            pod({JOBSET_EXCLUSIVE: ZONE, "alpha.jobset.sigs.k8s.io/node-selector": "true"}, JOBSET),
            DeclaredGroup(6),
            GangRequest(key("JobSet", "train"), 6),
            id="a JobSet whose nodes are labelled for it",
        ),
        pytest.param(
            pod(schedulingGroup={"podGroupName": "w"}),
            DeclaredGroup(2, ZONE),
            GangRequest(key("PodGroup", "w"), 2, ZONE),
            id="the object's topology",
        ),
    ],
)
def test_objects_of_groups_say_what_pods_do_not(
    of: kube.Pod, declared: DeclaredGroup, expected: GangRequest | None
) -> None:
    assert read_gang_request(of, lambda group: declared) == expected


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(pod(), None, id="nothing stated"),
        pytest.param(pod(ours(max_duration="2h")), 7200.0, id="the annotation"),
        pytest.param(
            pod(ours(max_duration="2h"), activeDeadlineSeconds=600), 600.0, id="the earlier of both"
        ),
        pytest.param(
            pod(ours(max_duration="long"), activeDeadlineSeconds=600),
            600.0,
            id="what the kubelet enforces, though the annotation is no duration",
        ),
    ],
)
def test_a_pod_says_how_long_it_runs(of: kube.Pod, expected: float | None) -> None:
    assert max_duration_s(of) == expected


def document(api: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "x", "namespace": "ml"}, "spec": spec}


def jobset(*rows: tuple[int, int | None, int | None], **more: Any) -> dict[str, Any]:
    """A JobSet of jobs of (replicas, parallelism, completions)."""
    found = []
    for replicas, parallelism, completions in rows:
        spec = {"parallelism": parallelism, "completions": completions}
        spec = {name: count for name, count in spec.items() if count is not None}
        found.append({"name": "j", "replicas": replicas, "template": {"spec": spec}} | more)
    return document("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": found})


def pytorch_job(replicas: dict[str, Any], **more: Any) -> dict[str, Any]:
    return document("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": replicas} | more)


def mpi_job(**more: Any) -> dict[str, Any]:
    """One of eight workers."""
    replicas = {"Launcher": {"replicas": 1}, "Worker": {"replicas": 8}}
    return document("kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": replicas} | more)


ELASTIC = {"minReplicas": 2, "maxReplicas": 8}


@pytest.mark.parametrize(
    ("of", "kind", "expected"),
    [
        pytest.param(
            jobset((2, 4, 4), (1, None, None)),
            "JobSet",
            DeclaredGroup(9),
            id="a JobSet: the pods of all its jobs",
        ),
        pytest.param(
            jobset((1, 8, 3)),
            "JobSet",
            DeclaredGroup(3),
            id="no more pods at one time than completions",
        ),
        pytest.param(
            jobset((2, 4, 4), dependsOn=[{"name": "a"}]),
            "JobSet",
            DeclaredGroup(None),
            id="a JobSet whose jobs wait for each other is no gang",
        ),
        pytest.param(
            pytorch_job({"Master": {"template": {}}, "Worker": {"replicas": 3}}),
            "training job",
            DeclaredGroup(4),
            id="a PyTorchJob: all replicas",
        ),
        pytest.param(
            mpi_job(runPolicy={"schedulingPolicy": {"minAvailable": 5}}),
            "training job",
            DeclaredGroup(5),
            id="what a job of Kubeflow needs at least",
        ),
        pytest.param(
            mpi_job(launcherCreationPolicy="WaitForWorkersReady"),
            "training job",
            DeclaredGroup(8),
            id="a launcher that is created once the workers run",
        ),
        pytest.param(
            pytorch_job({"Master": {"replicas": 1}, "Worker": {"replicas": 6}}, elasticPolicy=ELASTIC),
            "training job",
            DeclaredGroup(3),
            id="an elastic job: the workers that it runs with at least",
        ),
        pytest.param(
            document(
                "scheduling.k8s.io/v1beta1",
                "PodGroup",
                {
                    "schedulingPolicy": {"gang": {"minCount": 4}},
                    "schedulingConstraints": {"topology": [{"key": ZONE}]},
                },
            ),
            "PodGroup",
            DeclaredGroup(4, ZONE),
            id="a PodGroup of Kubernetes",
        ),
        pytest.param(
            document("scheduling.k8s.io/v1beta1", "PodGroup", {"schedulingPolicy": {"basic": {}}}),
            "PodGroup",
            DeclaredGroup(None),
            id="a PodGroup without the gang policy",
        ),
        pytest.param(
            document("scheduling.x-k8s.io/v1alpha1", "PodGroup", {"minMember": 5}),
            "coscheduling PodGroup",
            DeclaredGroup(5),
            id="a PodGroup of the coscheduling plugin",
        ),
    ],
)
def test_objects_of_other_projects_are_read(of: dict[str, Any], kind: str, expected: DeclaredGroup) -> None:
    assert declared_group(of) == (GroupKey(kind, "ml", "x"), expected)


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(document("batch/v1", "Job", {}), id="another kind"),
        pytest.param({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}, id="no name"),
    ],
)
def test_other_objects_are_no_groups(of: dict[str, Any]) -> None:
    assert declared_group(of) is None
