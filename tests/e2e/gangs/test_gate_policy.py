"""The admission policies of the component gangs on a real API server: pods of gangs get the gate, and the
extender may remove it and change nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.cluster.api import MERGE, ApiError, Json, eventually
from tests.e2e.installation import MANIFESTS
from tests.e2e.shares.share_cluster import NODE, ShareCluster, running_policies

GATE = "gpu.scheduler-ext.io/gang"
JSON_PATCH = "application/json-patch+json"
GANGS = "gangs"
PODS = f"/api/v1/namespaces/{GANGS}/pods"
COMPONENTS = (MANIFESTS / "components" / "idle-reclaim", MANIFESTS / "components" / "gangs")
OURS = {"annotations": {"gpu.scheduler-ext.io/gang": "train", "gpu.scheduler-ext.io/gang-size": "2"}}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareCluster]:
    with running_policies(tmp_path_factory.mktemp("gate"), *COMPONENTS) as cluster:
        for name, labels in ((GANGS, {"gpu.scheduler-ext.io/gangs": "enabled"}), ("plain", {})):
            cluster.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
            accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
            eventually(lambda: cluster.api.items(accounts), "the namespace has its ServiceAccount")  # noqa: B023
        eventually(lambda: gates(created(cluster, OURS)) == [GATE], "the policy works")
        path = f"{PODS}/{created(cluster)['metadata']['name']}"

        def is_refused() -> bool:
            # Another value each time: what changes nothing is never refused.
            label = {"metadata": {"labels": {"a": f"b{next(_numbers)}"}}}
            return bool(refusal(cluster, path, label, MERGE))

        eventually(is_refused, "the policy of the extender's changes works")
        yield cluster


def created(gated: ShareCluster, metadata: Json | None = None, path: str = PODS, **spec: Any) -> Json:
    container = {"name": "main", "image": "train:1"}
    pod: Json = {
        "metadata": {"name": f"pod-{next(_numbers)}", **(metadata or {})},
        "spec": {
            "schedulerName": "gpu-scheduler",
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
            **spec,
        },
    }
    return gated.api.create(path, pod)


def gates(pod: Json) -> list[str]:
    return [each["name"] for each in pod["spec"].get("schedulingGates") or ()]


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param(OURS, id="annotations of this project"),
        pytest.param({"labels": {"gpu.scheduler-ext.io/gang": "train"}}, id="a label of this project"),
        pytest.param({"labels": {"jobset.sigs.k8s.io/jobset-name": "train"}}, id="a JobSet"),
        pytest.param({"labels": {"leaderworkerset.sigs.k8s.io/group-index": "0"}}, id="a LeaderWorkerSet"),
        pytest.param({"labels": {"kueue.x-k8s.io/pod-group-name": "g"}}, id="a pod group of Kueue"),
        pytest.param({"labels": {"training.kubeflow.org/job-name": "g"}}, id="a job of Kubeflow"),
        pytest.param({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, id="a PodGroup of coscheduling"),
    ],
)
def test_a_pod_of_a_gang_gets_the_gate(gated: ShareCluster, metadata: Json) -> None:
    assert gates(created(gated, metadata)) == [GATE]


def test_a_gate_that_is_there_stays_alone(gated: ShareCluster) -> None:
    assert gates(created(gated, OURS, schedulingGates=[{"name": GATE}])) == [GATE]


def test_gates_of_others_stay(gated: ShareCluster) -> None:
    assert sorted(gates(created(gated, OURS, schedulingGates=[{"name": "example.com/mine"}]))) == [
        "example.com/mine",
        GATE,
    ]


@pytest.mark.parametrize(
    ("metadata", "path", "spec"),
    [
        pytest.param({}, PODS, {}, id="a pod of no gang"),
        pytest.param(OURS, "/api/v1/namespaces/plain/pods", {}, id="a pod in another namespace"),
        pytest.param(OURS, PODS, {"schedulerName": "default-scheduler"}, id="a pod of another scheduler"),
        pytest.param(OURS, PODS, {"nodeName": NODE}, id="a pod with a node"),
    ],
)
def test_other_pods_get_no_gate(gated: ShareCluster, metadata: Json, path: str, spec: dict[str, Any]) -> None:
    assert gates(created(gated, metadata, path, **spec)) == []


def without_gate(pod: Json) -> list[Json]:
    index = gates(pod).index(GATE)
    path = f"/spec/schedulingGates/{index}"
    return [{"op": "test", "path": path, "value": {"name": GATE}}, {"op": "remove", "path": path}]


def test_the_extender_may_remove_the_gate(gated: ShareCluster) -> None:
    pod = created(gated, OURS, schedulingGates=[{"name": "example.com/mine"}])
    path = f"{PODS}/{pod['metadata']['name']}"
    assert gates(gated.extender.patch(path, without_gate(pod), JSON_PATCH)) == ["example.com/mine"]


def refusal(gated: ShareCluster, path: str, patch: Any, content_type: str) -> str:
    try:
        gated.extender.patch(path, patch, content_type)
    except ApiError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("patch", "content_type"),
    [
        pytest.param({"metadata": {"labels": {"a": "b"}}}, MERGE, id="a label"),
        pytest.param({"metadata": {"annotations": {"a": "b"}}}, MERGE, id="an annotation"),
        pytest.param(
            [{"op": "replace", "path": "/spec/containers/0/image", "value": "x"}], JSON_PATCH, id="an image"
        ),
        pytest.param(
            [{"op": "remove", "path": "/spec/schedulingGates/0"}], JSON_PATCH, id="a gate of others"
        ),
    ],
)
def test_the_extender_may_change_nothing_else(gated: ShareCluster, patch: Any, content_type: str) -> None:
    pod = created(gated, {}, schedulingGates=[{"name": "example.com/mine"}])
    path = f"{PODS}/{pod['metadata']['name']}"
    assert "the gpu-scheduler may" in refusal(gated, path, patch, content_type)


def eviction(pod: Json, **metadata: Any) -> Json:
    found = pod["metadata"]
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": found["name"], "namespace": found["namespace"], **metadata},
        "deleteOptions": {"preconditions": {"uid": found["uid"]}},
    }


FOR_A_GANG = {"annotations": {"gpu.scheduler-ext.io/evicted-for": "gangs/train"}}


def test_the_extender_evicts_for_a_gang_where_it_may_not_reclaim(gated: ShareCluster) -> None:
    gated.api.patch(
        f"/api/v1/namespaces/{GANGS}", {"metadata": {"labels": {"gpu.scheduler-ext.io/reclaim": "false"}}}
    )
    pod = created(gated, OURS, nodeName=NODE)
    path = f"{PODS}/{pod['metadata']['name']}/eviction"

    def is_refused() -> bool:
        try:
            gated.extender.create(f"{path}?dryRun=All", eviction(pod))
        except ApiError as error:
            return "reclaim=false" in str(error)
        return False

    eventually(is_refused, "an eviction for reclaim is refused there")
    gated.extender.create(path, eviction(pod, **FOR_A_GANG))


def test_the_extender_evicts_no_pod_of_the_system(gated: ShareCluster) -> None:
    path = "/api/v1/namespaces/kube-system/pods"
    eventually(
        lambda: gated.api.items("/api/v1/namespaces/kube-system/serviceaccounts"), "there are accounts"
    )
    pod = created(gated, {}, path, nodeName=NODE)
    with pytest.raises(ApiError, match="not in gpu-scheduler and kube-system"):
        gated.extender.create(f"{path}/{pod['metadata']['name']}/eviction", eviction(pod, **FOR_A_GANG))
