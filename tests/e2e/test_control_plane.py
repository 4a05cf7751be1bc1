"""The test control plane itself: it has the parts that later tests need, and refuses unknown users."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.cluster.api import Api, ApiError, Json, eventually
from tests.e2e.cluster.binaries import find_binaries
from tests.e2e.cluster.control_plane import ControlPlane, running_control_plane
from tests.e2e.cluster.features import DEVICE_TAINT_RULES
from tests.e2e.cluster.kubelet import Kubelet
from tests.e2e.cluster.whole import Cluster
from tests.e2e.installation import Installation

ADMISSION = "/apis/admissionregistration.k8s.io/v1"


@pytest.fixture
def name() -> str:
    return f"control-{uuid.uuid4().hex[:8]}"


def test_a_request_without_a_token_is_refused(control_plane: ControlPlane) -> None:
    with pytest.raises(ApiError) as refused:
        control_plane.api.as_user("guess").get("/api/v1/nodes")
    assert refused.value.status == 401


def test_a_token_gives_what_its_roles_give(control_plane: ControlPlane) -> None:
    account = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = control_plane.api.create(account, {"spec": {}})["status"]["token"]
    with pytest.raises(ApiError) as refused:
        control_plane.api.as_user(token).get("/api/v1/nodes")
    assert refused.value.status == 403


def test_everything_listens_on_loopback_only(cluster: Cluster, installation: Installation) -> None:
    addresses = cluster.plane.listening_addresses() | cluster.kubelet_server.listening_addresses()
    for pod in installation.pods():
        for container in pod.containers.values():
            assert container.child is not None
            assert container.child.listening_addresses()
            addresses |= container.child.listening_addresses()
    assert {address for address, _ in addresses} == {"127.0.0.1"}


@pytest.mark.decisions
def test_features_of_a_control_plane_are_on(tmp_path: Path) -> None:
    with running_control_plane(find_binaries(), tmp_path, features=DEVICE_TAINT_RULES) as plane:
        rule = {
            "metadata": {"name": "sick"},
            "spec": {
                "deviceSelector": {"driver": "gpu.nvidia.com", "pool": "node", "device": "gpu-0"},
                "taint": {"key": "example.com/sick", "effect": "NoSchedule"},
            },
        }
        made = plane.api.create("/apis/resource.k8s.io/v1beta2/devicetaintrules", rule)
        assert made["spec"]["taint"]["key"] == "example.com/sick"


def admitted(api: Api, name: str, label: str) -> Json | None:
    """The namespace that the API server would store; None if it is refused."""
    body = {"metadata": {"name": name, "labels": {"test": label}}}
    try:
        return api.create("/api/v1/namespaces?dryRun=All", body)
    except ApiError as error:
        if error.status != 422:
            raise
        return None


def policy(name: str, kind: str, **spec: object) -> tuple[Json, Json]:
    """An admission policy for namespaces labelled with its name, and its binding."""
    match = {
        "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["namespaces"]}
        ],
        "objectSelector": {"matchLabels": {"test": name}},
    }
    body = {"metadata": {"name": name}, "spec": {"matchConstraints": match, **spec}}
    binding: Json = {"metadata": {"name": name}, "spec": {"policyName": name}}
    if kind == "validating":
        binding["spec"]["validationActions"] = ["Deny"]
    return body, binding


@pytest.mark.parametrize(
    ("kind", "spec", "in_force"),
    [
        pytest.param(
            "validating",
            {"validations": [{"expression": "object.metadata.name == 'never'"}]},
            lambda namespace: namespace is None,
            id="a ValidatingAdmissionPolicy refuses",
        ),
        pytest.param(
            "mutating",
            {
                "reinvocationPolicy": "Never",
                "mutations": [
                    {
                        "patchType": "JSONPatch",
                        "jsonPatch": {
                            "expression": '[JSONPatch{op: "add", path: "/metadata/labels/seen", value: ""}]'
                        },
                    }
                ],
            },
            lambda namespace: namespace is not None and "seen" in namespace["metadata"]["labels"],
            id="a MutatingAdmissionPolicy changes",
        ),
    ],
)
def test_admission_policies_work(
    control_plane: ControlPlane, name: str, kind: str, spec: Json, in_force: Callable[[Json | None], bool]
) -> None:
    api = control_plane.api
    body, binding = policy(name, kind, **spec)
    paths = (f"{ADMISSION}/{kind}admissionpolicies", f"{ADMISSION}/{kind}admissionpolicybindings")
    try:
        for path, each in zip(paths, (body, binding), strict=True):
            api.create(path, each)
        eventually(lambda: in_force(admitted(api, name, name)), "the policy is in force")
        assert not in_force(admitted(api, name, "another"))
    finally:
        for path in paths:
            api.delete(f"{path}/{name}")


def test_the_kubelet_copies_capacity_and_forgets_it_when_a_node_registers_again(
    control_plane: ControlPlane, kubelet: Kubelet, name: str
) -> None:
    api = control_plane.api
    path = f"/api/v1/nodes/{name}"

    def allocatable() -> Json:
        found: Json = api.get(path)["status"].get("allocatable", {})
        return found

    api.create("/api/v1/nodes", {"metadata": {"name": name}, "status": {"capacity": {"cpu": "4"}}})
    try:
        eventually(lambda: allocatable() == {"cpu": "4"}, "allocatable is capacity")
        capacity = {"cpu": "4", "example.com/gpu": "8"}
        api.patch(f"{path}/status", {"status": {"capacity": capacity}})
        eventually(lambda: allocatable() == capacity, "an extended resource is copied")
        kubelet.reregister(name)
        eventually(lambda: allocatable() == {"cpu": "4", "example.com/gpu": "0"}, "it is zero")
        assert api.get(path)["status"]["capacity"]["example.com/gpu"] == "0"
    finally:
        api.delete(path)


def test_the_kubelet_finishes_deletions_after_their_grace_period(
    control_plane: ControlPlane, kubelet: Kubelet, name: str
) -> None:
    api = control_plane.api
    pods = "/api/v1/namespaces/default/pods"
    container = {"name": "main", "image": "any"}
    spec = {"containers": [container], "nodeName": "plain-1", "terminationGracePeriodSeconds": 3}
    api.create(pods, {"metadata": {"name": name}, "spec": spec})
    eventually(lambda: api.get(f"{pods}/{name}")["status"]["phase"] == "Running", "the pod runs")
    api.delete(f"{pods}/{name}")
    assert "deletionTimestamp" in api.get(f"{pods}/{name}")["metadata"], "it is still there"
    eventually(lambda: not api.items(pods, fieldSelector=f"metadata.name={name}"), "it is gone")
