"""Write access to the GPU of a share, and to what a node has of them, on the real API server."""

from __future__ import annotations

import pytest

from tests.e2e.cluster.api import MERGE, STRATEGIC, Json, eventually
from tests.e2e.shares.share_cluster import (
    ASSIGNED,
    DEVICES,
    NAMESPACE,
    NODE,
    ShareCluster,
    container,
    debug,
    debugged,
    share,
)
from tests.kube_objects import SHARE

POLICIES = "/apis/admissionregistration.k8s.io/v1"
BINDS = ["pods/{name}/binding", "bindings"]


def test_the_extenders_binding_brings_the_annotations_with_the_node(shares: ShareCluster) -> None:
    pod = shares.get(shares.assigned())
    assert pod["spec"]["nodeName"] == NODE
    assert pod["metadata"]["annotations"] == {ASSIGNED: "{}", f"{DEVICES}main": "GPU-1"}


@pytest.mark.parametrize(
    "key",
    [ASSIGNED, f"{DEVICES}main", "nvidia.cdi.k8s.io/container.main", "cdi.k8s.io/gpus"],
)
@pytest.mark.parametrize("path", BINDS)
@pytest.mark.parametrize("user", ["admin", "our kube-scheduler"])
def test_no_other_user_binds_with(shares: ShareCluster, key: str, path: str, user: str) -> None:
    name = shares.made()
    api = shares.api if user == "admin" else shares.scheduler
    full = f"/api/v1/namespaces/{NAMESPACE}/{path.format(name=name)}"
    said = api.refusal("POST", full, shares.binding(name, {key: "GPU-1"}))
    assert "only the extender of the gpu-scheduler may bind" in said
    assert "nodeName" not in shares.get(name)["spec"]


@pytest.mark.parametrize("path", BINDS)
def test_a_binding_without_them_is_allowed(shares: ShareCluster, path: str) -> None:
    """The request contains nothing of the pod, so the server cannot know that the pod requests a share."""
    name = shares.made()
    binding = shares.binding(name, {"team": "a"})
    full = f"/api/v1/namespaces/{NAMESPACE}/{path.format(name=name)}"
    shares.plane.api_as("kube-scheduler").create(full, binding)
    assert shares.get(name)["metadata"]["annotations"] == {"team": "a"}


@pytest.mark.parametrize(
    ("who", "subresource"),
    [
        pytest.param("administrator", "", id="by the pod"),
        pytest.param("administrator", "/status", id="by its status"),
        pytest.param("our kube-scheduler", "/status", id="by its status, as our kube-scheduler"),
    ],
)
@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({f"{DEVICES}main": "GPU-2"}, id="changes the device"),
        pytest.param({f"{DEVICES}main": None}, id="takes the device away"),
        pytest.param({ASSIGNED: None}, id="takes the decision away"),
    ],
)
def test_no_user_afterwards(
    shares: ShareCluster, bound: str, who: str, subresource: str, annotations: Json
) -> None:
    api = shares.api if who == "administrator" else shares.scheduler
    patch = {"metadata": {"annotations": annotations}}
    said = api.refusal("PATCH", f"{shares.pods}/{bound}{subresource}", patch, STRATEGIC)
    assert "come with the extender's Binding and stay as they are" in said


@pytest.mark.parametrize("value", ["GPU-1", ""])
def test_no_user_assigns_to_a_waiting_pod(shares: ShareCluster, value: str) -> None:
    name = shares.made()
    patch = {"metadata": {"annotations": {f"{DEVICES}main": value}}}
    assert "come with the extender's" in shares.api.refusal("PATCH", f"{shares.pods}/{name}", patch, MERGE)


@pytest.fixture(scope="module")
def bound(shares: ShareCluster) -> str:
    """A pod with a device, which runs."""
    name = shares.assigned()
    eventually(lambda: shares.get(name)["status"]["phase"] == "Running", "kubelet reports on it")
    return name


def test_everything_else_goes_on_with_an_assigned_pod(shares: ShareCluster) -> None:
    name = shares.assigned(share(resources={"limits": {SHARE: "4096", "cpu": "1"}}))
    path = f"{shares.pods}/{name}"
    eventually(lambda: shares.get(name)["status"]["phase"] == "Running", "kubelet reports on it")
    shares.api.patch(path, {"metadata": {"labels": {"a": "b"}, "annotations": {"team": "a"}}})
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    shares.scheduler.patch(f"{path}/status", {"status": {"conditions": [condition]}}, STRATEGIC)
    resized = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]}}
    shares.api.patch(f"{path}/resize", resized, STRATEGIC)
    debug(shares.api, path, debugged("debug"))
    assert shares.get(name)["metadata"]["annotations"] == {
        ASSIGNED: "{}",
        f"{DEVICES}main": "GPU-1",
        "team": "a",
    }
    shares.api.create(f"{path}/eviction", {"metadata": {"name": name, "namespace": NAMESPACE}})
    eventually(lambda: all(pod["metadata"]["name"] != name for pod in shares.api.items(shares.pods)), "gone")


def test_our_kube_scheduler_goes_on_as_it_does(shares: ShareCluster) -> None:
    """Pods without GPU requests are the scheduler's to bind; it nominates, and it evicts."""
    name = shares.made(container(), schedulerName="gpu-scheduler")
    path = f"{shares.pods}/{name}"
    shares.scheduler.patch(f"{path}/status", {"status": {"nominatedNodeName": NODE}}, STRATEGIC)
    shares.scheduler.create(f"{path}/binding", shares.binding(name))
    assert shares.get(name)["spec"]["nodeName"] == NODE
    shares.scheduler.request("DELETE", path)
    eventually(lambda: all(pod["metadata"]["name"] != name for pod in shares.api.items(shares.pods)), "gone")


def amounts(mib: str | None, **more: str) -> Json:
    return {"status": {kind: {SHARE: mib, **more} for kind in ("capacity", "allocatable")}}


def test_the_extender_says_how_much_a_node_has(shares: ShareCluster) -> None:
    node = f"/api/v1/nodes/{NODE}"

    def told() -> list[str | None]:
        status = shares.api.get(node)["status"]
        return [status[kind].get(SHARE) for kind in ("capacity", "allocatable")]

    for mib in ("81920", "40960", None):
        shares.extender.patch(f"{node}/status", amounts(mib))
        # The kubelet writes at the same time, from a slightly older read.
        eventually(lambda wanted=mib: told() == [wanted] * 2, f"the node has {mib} MiB")  # type: ignore[misc]


READY = {"type": "Ready", "status": "False", "reason": "Wrong"}


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        pytest.param(amounts("1", cpu="1"), "no other resource", id="another amount beside it"),
        pytest.param({"status": {"capacity": {"nvidia.com/gpu": "8"}}}, "no other resource", id="GPUs"),
        pytest.param({"status": {"conditions": [READY]}}, "nothing else", id="conditions"),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, "nothing else", id="labels"),
        pytest.param(
            {"metadata": {"annotations": {"gpu.scheduler-ext.io/inventory-changed": "now"}}},
            "nothing else",
            id="the nudge by this way",
        ),
    ],
)
def test_the_extender_changes_nothing_else_of_a_nodes_status(
    shares: ShareCluster, patch: Json, said: str
) -> None:
    refusal = shares.extender.refusal("PATCH", f"/api/v1/nodes/{NODE}/status", patch, STRATEGIC)
    assert said in refusal
    assert refusal.startswith("403 Forbidden")


def test_kubernetes_finds_nothing_wrong_with_the_policies(shares: ShareCluster) -> None:
    def checked() -> dict[str, list[Json]] | None:
        policies = shares.api.items(f"{POLICIES}/validatingadmissionpolicies")
        if not all("typeChecking" in each.get("status", {}) for each in policies):
            return None
        return {
            each["metadata"]["name"]: each["status"]["typeChecking"].get("expressionWarnings", [])
            for each in policies
        }

    found = eventually(checked, "the policies are checked")
    assert len(found) == 6
    assert {name: warnings for name, warnings in found.items() if warnings} == {}
