"""The identity of each container of the scheduler's pod, by the token in the container."""

from __future__ import annotations

from tests.e2e.cluster.api import Api, ApiError, eventually
from tests.e2e.installation import MANIFESTS, NAMESPACE, Installation
from tests.e2e.workload import Workload

EXTENDER = f"system:serviceaccount:{NAMESPACE}:gpu-scheduler-extender"


def user(api: Api) -> str:
    """The user name of a token."""
    reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    name: str = api.create(reviews, {})["status"]["userInfo"]["username"]
    return name


def test_each_container_has_its_own_identity(installation: Installation) -> None:
    for pod in installation.pods():
        users = {name: user(installation.api.as_user(pod.token(name))) for name in pod.containers}
        assert users == {
            "kube-scheduler": f"system:serviceaccount:{NAMESPACE}:gpu-scheduler",
            "extender": EXTENDER,
        }


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
    assert user(installation.api.as_user(pod.token("extender"))) == EXTENDER
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
