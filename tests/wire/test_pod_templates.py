"""Pods of workloads: where templates are found, how their pods are named, and how many there are to be."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from scheduler_ext.core.errors import InventoryError
from scheduler_ext.core.request.gang_request import GangRequest
from scheduler_ext.wire.gangs import read_gang_request
from scheduler_ext.wire.manifests import every_pod, in_namespace
from scheduler_ext.wire.objects import read_manifests, read_pods
from tests.kube_objects import Json, pod
from tests.wire.decoded_pods import decoded

SPEC = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}
TEMPLATE: Json = {"metadata": {"labels": {"app": "x"}, "annotations": {"a": "b"}}, "spec": SPEC}


def workload(kind: str, spec: Any, name: str = "w", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": name, "namespace": "team"}} | {
        "spec": spec,
        "status": {"template": TEMPLATE},
        **more,
    }


def read(*objects: Any) -> list[tuple[str, int | None]]:
    """The pods of objects by name, with how many of each are wanted."""
    return [(each.name, each.copies) for each in read_manifests(yaml.safe_dump_all(objects).encode())]


WORKLOADS = [
    pytest.param(workload("Deployment", {"replicas": 3, "template": TEMPLATE}), [("w", 3)], id="Deployment"),
    pytest.param(workload("ReplicaSet", {"replicas": 0, "template": TEMPLATE}), [("w", 0)], id="ReplicaSet"),
    pytest.param(workload("DaemonSet", {"template": TEMPLATE}), [("w", None)], id="DaemonSet"),
    pytest.param(
        workload("Job", {"parallelism": 4, "completions": 2, "template": TEMPLATE}),
        [("w", 2)],
        id="a Job that completes before all run",
    ),
    pytest.param(
        workload("Job", {"completions": 2, "template": TEMPLATE}),
        [("w", 1)],
        id="a Job of one after the other",
    ),
    pytest.param(
        workload("CronJob", {"jobTemplate": {"spec": {"parallelism": 2, "template": TEMPLATE}}}),
        [("w", 2)],
        id="CronJob",
    ),
    pytest.param(
        workload("PodTemplate", None, template=TEMPLATE), [("w", 1)], id="PodTemplate, which has no spec"
    ),
    pytest.param(
        workload("ControllerRevision", None, data={"spec": {"template": TEMPLATE}}),
        [("w", 1)],
        id="ControllerRevision",
    ),
    pytest.param(workload("Mine", {"podSpec": SPEC, "replicas": 2}), [("w", 2)], id="spec.podSpec"),
    pytest.param(workload("Revision", SPEC), [("w", 1)], id="a spec that is the spec of a pod"),
    pytest.param(
        workload(
            "PyTorchJob",
            {
                "pytorchReplicaSpecs": {
                    "Master": {"replicas": 1, "template": TEMPLATE},
                    "Worker": {"replicas": 7, "template": TEMPLATE},
                }
            },
        ),
        [("w-master", 1), ("w-worker", 7)],
        id="PyTorchJob",
    ),
    pytest.param(
        workload(
            "RayCluster",
            {
                "headGroupSpec": {"template": TEMPLATE},
                "workerGroupSpecs": [
                    {"groupName": "small", "replicas": 2, "template": TEMPLATE},
                    {"groupName": "big", "replicas": 2, "numOfHosts": 4, "template": TEMPLATE},
                ],
            },
        ),
        [("w-head", 1), ("w-small", 2), ("w-big", 8)],
        id="RayCluster",
    ),
    pytest.param(
        workload(
            "JobSet",
            {
                "replicatedJobs": [
                    {"name": "leader", "template": {"spec": {"template": TEMPLATE}}},
                    {
                        "name": "peers",
                        "replicas": 3,
                        "template": {"spec": {"parallelism": 2, "template": TEMPLATE}},
                    },
                ]
            },
        ),
        [("w-leader", 1), ("w-peers", 6)],
        id="JobSet",
    ),
    pytest.param(
        workload(
            "LeaderWorkerSet",
            {
                "replicas": 2,
                "leaderWorkerTemplate": {"size": 4, "leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE},
            },
        ),
        [("w-leader", 2), ("w-worker", 6)],
        id="LeaderWorkerSet",
    ),
    pytest.param(
        workload(
            "LeaderWorkerSet",
            {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": TEMPLATE}},
        ),
        [("w", 8)],
        id="a LeaderWorkerSet whose leaders are like its workers",
    ),
    pytest.param(
        workload("VolcanoJob", {"tasks": [{"name": "ps", "replicas": 2, "template": TEMPLATE}] * 2}),
        [("w-ps-0", 2), ("w-ps-1", 2)],
        id="roles of one name",
    ),
]


@pytest.mark.parametrize(("manifest", "expected"), WORKLOADS)
def test_templates_are_found_at_usual_places(
    manifest: dict[str, Any], expected: list[tuple[str, int]]
) -> None:
    assert read(manifest) == expected
    assert read({"kind": "List", "items": [manifest]}) == expected


def test_a_pod_of_a_template_has_what_the_template_says_and_the_name_of_its_workload() -> None:
    (found,) = read_pods(yaml.safe_dump(workload("Deployment", {"template": TEMPLATE})).encode())
    assert found == decoded(
        TEMPLATE | {"metadata": TEMPLATE["metadata"] | {"name": "w", "namespace": "team"}}
    )


def test_an_answer_says_that_its_pod_is_of_a_template() -> None:
    objects = [
        workload("Deployment", {"replicas": 3, "template": TEMPLATE}),
        workload("DaemonSet", {"template": TEMPLATE}, name="d"),
        {"kind": "Pod"} | pod("p"),
    ]
    manifests = read_manifests(yaml.safe_dump_all(objects).encode())
    assert [each.notes() for each in manifests] == [
        ["a pod from the template of Deployment team/w, which runs 3 in total"],
        ["a pod from the template of DaemonSet team/d, which runs one on each node"],
        [],
    ]


def test_other_objects_beside_workloads_are_skipped() -> None:
    service = workload("Service", {"selector": {"app": "x"}})
    properties = {"spec": {"properties": {"containers": {"type": "array"}}}}
    crd = workload("CustomResourceDefinition", {"schema": {"properties": properties}})
    budget = {"kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {}}
    assert read(service, crd, budget, workload("Job", {"template": TEMPLATE}), pod("p")) == [
        ("w", 1),
        ("p", 1),
    ]
    with pytest.raises(InventoryError, match=r"^Service team/w has no pod template with containers: if it"):
        read(service)


def test_workloads_of_one_name_give_their_pods_two() -> None:
    objects = [workload(kind, {"template": TEMPLATE}) for kind in ("Deployment", "Job")]
    assert read(*objects) == [("w", 1), ("w-job", 1)]
    with pytest.raises(InventoryError, match="Pod team/w-job is in the file twice"):
        read(*objects, objects[1])


def test_a_generated_name_names_the_pods() -> None:
    made = workload("Job", {"template": TEMPLATE}) | {"metadata": {"generateName": "train-"}}
    assert read(made) == [("train", 1)]
    with pytest.raises(InventoryError, match=r"^document 1: Job without metadata\.name$"):
        read(made | {"metadata": {}})


COSCHEDULED = workload(
    "Deployment",
    {
        "replicas": 2,
        "template": {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "pg"}}, "spec": SPEC},
    },
)
GROUPED = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "w", "namespace": "team"},
    "spec": {**SPEC, "schedulingGroup": {"podGroupName": "pg"}},
}


def pod_group(api_version: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "pg", "namespace": "team"}
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("objects", "sizes", "unknown"),
    [
        pytest.param(
            [pod_group("scheduling.x-k8s.io/v1alpha1", minMember=2), COSCHEDULED],
            [2, 2],
            None,
            id="in a label",
        ),
        pytest.param(
            [pod_group("scheduling.k8s.io/v1alpha2", schedulingPolicy={"gang": {"minCount": 3}}), GROUPED],
            [3],
            None,
            id="in spec.schedulingGroup",
        ),
        pytest.param(
            [pod_group("scheduling.k8s.io/v1alpha2", schedulingPolicy={"basic": {}}), GROUPED],
            [None],
            None,
            id="without a gang policy",
        ),
        pytest.param([GROUPED], [None], "PodGroup pg", id="that is not in the file"),
    ],
)
def test_pods_that_name_a_group_are_a_gang_of_its_size(
    objects: list[Any], sizes: list[int | None], unknown: str | None
) -> None:
    manifests = read_manifests(yaml.safe_dump_all(objects).encode())
    gang_requests = [read_gang_request(each) for each in every_pod(manifests)]
    assert [
        gang_request.size if isinstance(gang_request, GangRequest) else gang_request
        for gang_request in gang_requests
    ] == sizes
    notes = [note for each in manifests for note in each.notes() if note.startswith("how many pods")]
    assert notes == (
        [
            f"how many pods the {unknown} has is not known here: they start one by one without the "
            "annotation gpu.scheduler-ext.io/gang-size"
        ]
        if unknown
        else []
    )


def test_a_mistake_in_a_template_is_named_with_its_place() -> None:
    wrong = {"spec": {"containers": [{"name": 5}]}}
    with pytest.raises(
        InventoryError, match=r"^Job team/w: spec\.template: spec\.containers\[0\]\.name: Expected"
    ):
        read(workload("Job", {"template": wrong}))


@pytest.mark.parametrize("field", ["replicas", "parallelism"])
@pytest.mark.parametrize("number", ["3", "${trialParameters.workers}", True, 2.5])
def test_a_number_that_cannot_be_read_counts_as_one_with_a_note(field: str, number: Any) -> None:
    mine = workload("Mine", {field: number, "template": TEMPLATE})
    (manifest,) = read_manifests(yaml.safe_dump(mine).encode())
    assert manifest.copies == 1
    assert manifest.notes()[1:] == [
        f"Mine team/w: spec.{field}: {str(number)!r} is no whole number, and counts as 1"
    ]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param([None], ["user-container"], id="the only one, as in Knative"),
        pytest.param(["a", None], ["a", "user-container-1"], id="one beside others"),
    ],
)
def test_a_container_without_a_name_gets_one(names: list[str | None], expected: list[str]) -> None:
    containers = [{"name": name} if name else {"image": "x"} for name in names]
    (made,) = read_pods(
        yaml.safe_dump(workload("Service", {"template": {"spec": {"containers": containers}}})).encode()
    )
    assert made.spec is not None
    assert [each.name for each in made.spec.containers or () if each is not None] == expected


def test_all_pods_of_a_workload_come_to_a_simulation() -> None:
    objects = [
        workload("Deployment", {"replicas": 3, "template": TEMPLATE}),
        workload("DaemonSet", {"template": TEMPLATE}, name="d"),
        workload("Job", {"template": TEMPLATE}, name="j"),
        workload("ReplicaSet", {"replicas": 0, "template": TEMPLATE}, name="none"),
    ]
    manifests = read_manifests(yaml.safe_dump_all(objects).encode())
    names = [each.metadata.name for each in every_pod(manifests) if each.metadata]
    assert names == ["w-0", "w-1", "w-2", "d", "j"]


@pytest.mark.parametrize("replicas", [0, 100_001])
def test_a_simulation_of_too_many_pods_or_none_is_refused(replicas: int) -> None:
    job = workload("Job", {"parallelism": replicas, "template": TEMPLATE})
    manifests = read_manifests(json.dumps(job).encode())
    with pytest.raises(InventoryError, match=r"\d+ pods by its replicas; give 1 to 100000"):
        every_pod(manifests)


def test_a_workload_without_a_namespace_is_put_into_one() -> None:
    manifest = workload("Job", {"template": TEMPLATE}) | {"metadata": {"name": "w"}}
    (placed,) = in_namespace(read_manifests(json.dumps(manifest).encode()), "mine", only=True)
    assert placed.pod.metadata is not None
    assert placed.pod.metadata.namespace == "mine"
    assert placed.workload == "Job w"


def test_the_search_is_bounded() -> None:
    many = workload("Mine", {"tasks": [{"template": TEMPLATE}] * 5000})
    assert len(read(many)) == 100
    deep: Any = TEMPLATE
    for _ in range(20):
        deep = {"below": deep}
    with pytest.raises(InventoryError, match="Mine team/w has no pod template"):
        read(workload("Mine", deep))
    wide = workload("Mine", {"a": [{}] * 30_000, "template": TEMPLATE})
    with pytest.raises(InventoryError, match="Mine team/w has no pod template"):
        read_pods(json.dumps(wide).encode())


@pytest.mark.parametrize("depth", [900, 1000])
def test_objects_of_any_depth_are_read_or_refused(depth: int) -> None:
    text = '{"kind": "Mine", "metadata": {"name": "n"}, "a": ' + '{"a":' * depth + "1" + "}" * depth + "}"
    with pytest.raises(InventoryError):
        read_pods(text.encode())
