"""The admission policies of gangs and of nominations on a real API server: pods of gangs get the gate, and
the extender may remove it, nominate pods, and change nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler_ext.features.gangs.wire.nomination import START_BY
from tests.e2e.cluster.api import JSON_PATCH, MERGE, STRATEGIC, Json, eventually
from tests.e2e.installation import MANIFESTS
from tests.e2e.shares.share_cluster import NODE, ShareCluster, container, running_policies

GATE = "gpu.scheduler-ext.io/gang"
GANGS = "gangs"
PODS = f"/api/v1/namespaces/{GANGS}/pods"
COMPONENTS = tuple(MANIFESTS / "components" / name for name in ("idle-reclaim", "gangs"))
OURS = {"annotations": {"gpu.scheduler-ext.io/gang": "train", "gpu.scheduler-ext.io/gang-size": "2"}}
MINE = {"name": "example.com/mine"}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareCluster]:
    with running_policies(tmp_path_factory.mktemp("gate"), *COMPONENTS) as cluster:
        cluster.api.create_namespace(GANGS, **{"gpu.scheduler-ext.io/gangs": "enabled"})
        cluster.api.create_namespace("plain")
        eventually(lambda: gates(created(cluster, OURS)) == [GATE], "the policy works")
        path = f"{PODS}/{created(cluster)['metadata']['name']}"

        def is_refused() -> bool:
            # Another value each time: what changes nothing is never refused.
            label = {"metadata": {"labels": {"a": f"b{next(_numbers)}"}}}
            return bool(cluster.extender.refusal("PATCH", path, label, MERGE))

        eventually(is_refused, "the policy of the extender's changes works")
        yield cluster


def created(gated: ShareCluster, metadata: Json | None = None, path: str = PODS, **spec: Any) -> Json:
    pod = gated.pod(container(), schedulerName="gpu-scheduler")
    pod["metadata"] |= metadata or {}
    pod["spec"] |= spec
    return gated.api.create(path, pod)


def gates(pod: Json) -> list[str]:
    return sorted(each["name"] for each in pod["spec"].get("schedulingGates") or ())


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


@pytest.mark.parametrize(
    ("metadata", "path", "spec", "expected"),
    [
        pytest.param(OURS, PODS, {"schedulingGates": [{"name": GATE}]}, [GATE], id="a pod that has it"),
        pytest.param(OURS, PODS, {"schedulingGates": [MINE]}, [MINE["name"], GATE], id="beside others"),
        pytest.param({}, PODS, {}, [], id="a pod of no gang"),
        pytest.param(OURS, "/api/v1/namespaces/plain/pods", {}, [], id="a pod in another namespace"),
        pytest.param(OURS, PODS, {"schedulerName": "default-scheduler"}, [], id="of another scheduler"),
        pytest.param(OURS, PODS, {"nodeName": NODE}, [], id="a pod with a node"),
    ],
)
def test_the_gate_is_added_once_and_where_it_belongs(
    gated: ShareCluster, metadata: Json, path: str, spec: dict[str, Any], expected: list[str]
) -> None:
    assert gates(created(gated, metadata, path, **spec)) == expected


def test_the_extender_may_remove_the_gate(gated: ShareCluster) -> None:
    pod = created(gated, OURS, schedulingGates=[MINE])
    index = [each["name"] for each in pod["spec"]["schedulingGates"]].index(GATE)
    path = f"/spec/schedulingGates/{index}"
    patch: list[Json] = [
        {"op": "test", "path": path, "value": {"name": GATE}},
        {"op": "remove", "path": path},
    ]
    left = gated.extender.patch(f"{PODS}/{pod['metadata']['name']}", patch, JSON_PATCH)
    assert gates(left) == [MINE["name"]]


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
    path = f"{PODS}/{created(gated, schedulingGates=[MINE])['metadata']['name']}"
    assert "the gpu-scheduler may" in gated.extender.refusal("PATCH", path, patch, content_type)


def condition(of: str) -> Json:
    return {"conditions": [{"type": of, "status": "True", "reason": "Started", "message": "now"}]}


@pytest.mark.parametrize(
    ("status", "refused"),
    [
        pytest.param(condition(START_BY) | {"nominatedNodeName": NODE}, False, id="the deadline of a gang"),
        pytest.param(condition("PodScheduled"), True, id="another condition"),
        pytest.param({"phase": "Failed"}, True, id="the phase"),
    ],
)
def test_of_a_status_the_extender_may_write_nominations_and_deadlines(
    gated: ShareCluster, status: Json, refused: bool
) -> None:
    path = f"{PODS}/{created(gated, OURS)['metadata']['name']}/status"
    phase = {"status": {"phase": "Succeeded"}}
    eventually(lambda: gated.extender.refusal("PATCH", path, phase, STRATEGIC), "the policy works")
    said = gated.extender.refusal("PATCH", path, {"status": status}, STRATEGIC)
    assert ("the gpu-scheduler may change the nomination" in said) is refused, said


def test_who_may_write_a_pod_cannot_write_its_deadline(gated: ShareCluster) -> None:
    """The API server ignores a status in such a write, also when the pod is created."""
    pod = gated.pod(container(), schedulerName="gpu-scheduler") | {"status": condition(START_BY)}
    name = gated.api.create(PODS, pod)["metadata"]["name"]
    found = gated.api.patch(f"{PODS}/{name}", {"status": condition(START_BY)})
    assert START_BY not in [each["type"] for each in found["status"].get("conditions", ())]


def test_the_end_of_a_gate_warns_no_pod(gated: ShareCluster) -> None:
    """The policy of warnings is about patches that leave the gates alone."""
    pod = created(gated, OURS)
    path = f"{PODS}/{pod['metadata']['name']}"
    ends = {"op": "remove", "path": "/spec/schedulingGates/0"}
    warns = {
        "op": "add",
        "path": "/metadata/annotations/gpu.scheduler-ext.io~1reclaim-at",
        "value": "2026-11-29T00:00:00Z",
    }
    for patch in ([ends, warns], [warns]):
        assert "the gpu-scheduler may" in gated.extender.refusal("PATCH", path, patch, JSON_PATCH)
    assert gates(gated.extender.patch(path, [ends], JSON_PATCH)) == []


def eviction(pod: Json, **metadata: Any) -> Json:
    found = pod["metadata"]
    return {
        "metadata": {"name": found["name"], "namespace": found["namespace"], **metadata},
        "deleteOptions": {"preconditions": {"uid": found["uid"]}},
    }


FOR_A_GANG = {"annotations": {"gpu.scheduler-ext.io/evicted-for": "gangs/train"}}


def test_the_extender_evicts_for_a_gang_where_it_may_not_reclaim(gated: ShareCluster) -> None:
    forbidden = {"metadata": {"labels": {"gpu.scheduler-ext.io/reclaim": "false"}}}
    gated.api.patch(f"/api/v1/namespaces/{GANGS}", forbidden)
    pod = created(gated, OURS, nodeName=NODE)
    path = f"{PODS}/{pod['metadata']['name']}/eviction"
    eventually(
        lambda: "reclaim=false" in gated.extender.refusal("POST", f"{path}?dryRun=All", eviction(pod)),
        "an eviction for reclaim is refused there",
    )
    gated.extender.create(path, eviction(pod, **FOR_A_GANG))


def test_the_extender_evicts_no_pod_of_the_system(gated: ShareCluster) -> None:
    path = "/api/v1/namespaces/kube-system"
    eventually(lambda: gated.api.items(f"{path}/serviceaccounts"), "there are accounts")
    pod = created(gated, {}, f"{path}/pods", nodeName=NODE)
    evicts = f"{path}/pods/{pod['metadata']['name']}/eviction"
    said = gated.extender.refusal("POST", evicts, eviction(pod, **FOR_A_GANG))
    assert "not in gpu-scheduler and kube-system" in said
