"""Rights of each container of the scheduler's pod, checked at the API server with the token in the
container.
"""

from __future__ import annotations

import base64
import json

import pytest

from tests.e2e.cluster.api import Api, ApiError, Json, eventually
from tests.e2e.installation import MANIFESTS, NAMESPACE, Installation
from tests.e2e.workload import Workload

EVENTS = {"group": "events.k8s.io", "resource": "events"}
LEASE = {
    "group": "coordination.k8s.io",
    "resource": "leases",
    "namespace": NAMESPACE,
    "name": "gpu-scheduler",
}
GPUNODES = {"group": "gpu.scheduler-ext.io", "resource": "gpunodes"}
RESERVATIONS = {"group": "gpu.scheduler-ext.io", "resource": "gpureservations"}
BUDGETS = {"group": "policy", "resource": "poddisruptionbudgets"}
BINDING = {"resource": "pods", "subresource": "binding", "namespace": "default"}
TOKENS = {"resource": "serviceaccounts", "subresource": "token", "namespace": NAMESPACE}
TOKEN_SECRET = "kubernetes.io/service-account-token"
EXTENDER = f"system:serviceaccount:{NAMESPACE}:gpu-scheduler-extender"
RBAC = "rbac.authorization.k8s.io"


def own(installation: Installation, container: str) -> Api:
    """The API for a container of a running pod."""
    return installation.api.as_user(installation.pods()[0].token(container))


def may(api: Api, verb: str, what: Json) -> bool:
    """As with `kubectl auth can-i`."""
    review = {"spec": {"resourceAttributes": {"verb": verb, **what}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    allowed: bool = api.create(path, review)["status"]["allowed"]
    return allowed


def user(api: Api) -> str:
    """The user name of a token."""
    reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    name: str = api.create(reviews, {})["status"]["userInfo"]["username"]
    return name


READS = [
    pytest.param("watch", {"resource": "nodes"}, id="watches Nodes"),
    pytest.param("list", {"resource": "pods"}, id="lists Pods everywhere"),
    pytest.param("watch", GPUNODES, id="watches GPUNodes"),
    pytest.param("watch", BUDGETS, id="watches PodDisruptionBudgets"),
    pytest.param("watch", LEASE, id="follows kube-scheduler's Lease"),
]
WRITES = [
    pytest.param("patch", {"resource": "nodes"}, id="patches Nodes, as a policy lets it"),
    pytest.param("create", {**EVENTS, "namespace": "default"}, id="writes Events"),
]
SHARES = [
    pytest.param("create", BINDING, id="binds Pods"),
    pytest.param("get", {"resource": "pods"}, id="reads one Pod"),
    pytest.param("patch", {"resource": "nodes", "subresource": "status"}, id="writes the status of Nodes"),
    pytest.param("update", RESERVATIONS, id="writes GPUReservations"),
]
NEVER = [
    pytest.param("delete", {"resource": "pods", "namespace": "default"}, id="deletes no Pod"),
    pytest.param(
        "create", {"resource": "pods", "subresource": "eviction", "namespace": "default"}, id="evicts no Pod"
    ),
    pytest.param("create", {"resource": "pods", "namespace": "default"}, id="creates no Pod"),
    pytest.param("patch", {"resource": "pods", "namespace": "default"}, id="changes no Pod"),
    pytest.param(
        "patch", {"resource": "pods", "subresource": "status", "namespace": "default"}, id="nor its status"
    ),
    pytest.param(
        "create",
        {"resource": "pods", "subresource": "exec", "namespace": NAMESPACE},
        id="runs nothing in one",
    ),
    pytest.param("get", {"resource": "secrets", "namespace": NAMESPACE}, id="reads no Secret of its own"),
    pytest.param("list", {"resource": "secrets"}, id="nor of others"),
    pytest.param("get", {"resource": "configmaps", "namespace": NAMESPACE}, id="reads no ConfigMap"),
    pytest.param("update", {"resource": "nodes"}, id="replaces no Node"),
    pytest.param("delete", {"resource": "nodes"}, id="deletes no Node"),
    pytest.param("create", {"resource": "nodes"}, id="creates no Node"),
    pytest.param("update", GPUNODES, id="writes no GPUNode"),
    pytest.param("patch", {**GPUNODES, "subresource": "status"}, id="nor its status"),
    pytest.param("update", LEASE, id="takes no Lease"),
    pytest.param("create", TOKENS, id="makes no token"),
    pytest.param("create", {"group": RBAC, "resource": "clusterrolebindings"}, id="grants nothing"),
    pytest.param("impersonate", {"resource": "users"}, id="impersonates no user"),
    pytest.param("list", {"resource": "persistentvolumes"}, id="lists no PersistentVolume"),
    pytest.param("get", {"resource": "nodes", "subresource": "proxy"}, id="reaches no kubelet"),
]


@pytest.mark.parametrize(("verb", "what"), [*READS, *WRITES])
def test_the_extender(installation: Installation, verb: str, what: Json) -> None:
    assert may(own(installation, "extender"), verb, what)


@pytest.mark.parametrize(("verb", "what"), [*SHARES, *NEVER])
def test_the_extender_does_not(installation: Installation, verb: str, what: Json) -> None:
    """The rights that shares need are granted with shares alone."""
    assert not may(own(installation, "extender"), verb, what)


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        pytest.param("create", BINDING, id="binds Pods"),
        pytest.param("delete", {"resource": "pods"}, id="deletes Pods"),
        pytest.param("update", LEASE, id="renews its Lease"),
        pytest.param("watch", {"resource": "nodes"}, id="watches Nodes"),
    ],
)
def test_kube_scheduler(installation: Installation, verb: str, what: Json) -> None:
    assert may(own(installation, "kube-scheduler"), verb, what)


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        pytest.param("patch", {"resource": "nodes"}, id="patches no Node"),
        pytest.param("update", {**LEASE, "name": "other"}, id="takes no other Lease there"),
        pytest.param("list", {"resource": "secrets"}, id="reads no Secret"),
        pytest.param("create", TOKENS, id="makes no token"),
        pytest.param("create", {"group": RBAC, "resource": "clusterrolebindings"}, id="grants nothing"),
    ],
)
def test_kube_scheduler_does_not(installation: Installation, verb: str, what: Json) -> None:
    assert not may(own(installation, "kube-scheduler"), verb, what)


def test_each_container_has_its_own_identity(installation: Installation) -> None:
    for pod in installation.pods():
        users = {name: user(installation.api.as_user(pod.token(name))) for name in pod.containers}
        assert users == {
            "kube-scheduler": f"system:serviceaccount:{NAMESPACE}:gpu-scheduler",
            "extender": EXTENDER,
        }


def test_a_policy_holds_the_extender_to_one_annotation_and_one_label(installation: Installation) -> None:
    """RBAC allows it to patch a Node; the policy limits it to these."""
    api = own(installation, "extender")
    node = f"/api/v1/nodes/{installation.api.items('/api/v1/nodes')[0]['metadata']['name']}"
    api.patch(node, {"metadata": {"annotations": {"gpu.scheduler-ext.io/inventory-changed": "1"}}})
    for other in ({"spec": {"unschedulable": True}}, {"metadata": {"labels": {"a": "b"}}}):
        with pytest.raises(ApiError, match=r"may change one annotation|may add one label"):
            api.patch(node, other)


def claims(token: str) -> Json:
    """The claims of a token."""
    part = token.split(".")[1]
    said: Json = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return said


def test_kube_schedulers_token_ends_with_its_pod(installation: Installation) -> None:
    (pod, *_) = installation.pods()
    token = pod.token("kube-scheduler")
    said = claims(token)
    assert said["exp"] - said["iat"] <= 3600
    assert said["kubernetes.io"]["pod"]["name"] == pod.name
    installation.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod.name}")
    eventually(lambda: refused(installation.api.as_user(token)), "the token is refused", 60)
    installation.await_ready()


def refused(api: Api) -> bool:
    """Whether the API server rejects the token."""
    try:
        user(api)
    except ApiError as error:
        return error.status == 401
    return False


def test_the_extenders_token_is_replaced_as_documented(workload: Workload) -> None:
    """With the commands of docs/tasks/install.md; the old token is refused, and the extenders continue."""
    installation = workload.installation
    (pod, *_) = installation.pods()
    old = pod.token("extender")
    restarts = {each: each.containers["extender"].restarts for each in installation.pods()}
    connected = installation.metric("gpu_extender_watch_connected")
    names = ("secret/gpu-scheduler-extender-token", "serviceaccount/gpu-scheduler-extender")
    installation.plane.kubectl("-n", NAMESPACE, "delete", *names)
    installation.plane.kubectl("apply", "--server-side", "-k", MANIFESTS / "base")
    eventually(lambda: refused(installation.api.as_user(old)), "the old token is refused", 60)
    eventually(lambda: pod.token("extender") != old, "the extender finds another token")
    assert user(own(installation, "extender")) == EXTENDER
    # An open watch is not authenticated again; a new one is.
    installation.plane.stop_apiserver()
    installation.plane.start_apiserver()
    eventually(
        lambda: installation.metric("gpu_extender_watch_connected") == connected,
        "the extenders, which read the file once a minute, watch again",
        150,
    )
    node = workload.add_whole("after", 1)
    workload.publish()
    assert workload.await_node(workload.create(workload.pod({"nvidia.com/gpu": "1"})), 60.0) == node
    assert {each: each.containers["extender"].restarts for each in installation.pods()} == restarts


def test_a_new_secret_alone_would_have_the_same_token(installation: Installation) -> None:
    """The reason for replacing the ServiceAccount as well: a stolen token would otherwise be valid again."""
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    named = {"kubernetes.io/service-account.name": "gpu-scheduler-extender"}
    secret = {"metadata": {"name": "second", "annotations": named}, "type": TOKEN_SECRET}
    tokens = []
    for _ in range(2):
        installation.api.create(path, secret)
        filled = eventually(lambda: installation.api.get(f"{path}/second").get("data"), "it has a token")
        tokens.append(filled["token"])
        installation.api.delete(f"{path}/second")
    assert tokens[0] == tokens[1]
