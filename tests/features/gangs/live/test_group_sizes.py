"""The objects that say how many pods belong together, read from an API server."""

from __future__ import annotations

import json

import msgspec
import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.features.gangs.live import group_sizes
from scheduler_ext.features.gangs.live.group_sizes import GroupSizes, UnknownYetError
from scheduler_ext.wire import kube
from scheduler_ext.wire.gangs import DeclaredGroup, GroupKey
from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_requests import Request
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import Json, pod

JOBSET = GroupKey("JobSet", "default", "train")
PYTORCH = GroupKey("training job", "default", "bert")
PATHS = {
    JOBSET: "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/train",
    PYTORCH: "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/bert",
}


class Objects:
    """Objects that the server has by their path; others are missing."""

    def __init__(self, server: ApiServer) -> None:
        self.found: dict[str, Json | int] = {}
        self.asked: list[str] = []
        server.hook = self._answer

    def _answer(self, request: Request) -> Answer | None:
        if not request.path.startswith("/apis/"):
            return None
        self.asked.append(request.path)
        found = self.found.get(request.path, 404)
        code, body = (found, {"kind": "Status"}) if isinstance(found, int) else (200, found)
        return Answer(code, json.dumps(body).encode())


@pytest.fixture
def objects(server: ApiServer) -> Objects:
    return Objects(server)


def a_pod(owner: str | None = None) -> kube.Pod:
    document = pod("p")
    if owner is not None:
        document["metadata"]["ownerReferences"] = [{"kind": owner, "name": "o", "uid": "u"}]
    return msgspec.json.decode(json.dumps(document), type=kube.Pod)


def jobset(replicas: int) -> Json:
    job = {"name": "w", "replicas": replicas, "template": {"spec": {"parallelism": 2}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"replicatedJobs": [job]},
    }


def test_an_object_is_read_once_a_minute_and_its_last_answer_holds_while_that_fails(
    objects: Objects, transport: Transport
) -> None:
    now = 0.0
    sizes = GroupSizes(transport, lambda: now)
    objects.found[PATHS[JOBSET]] = jobset(4)
    for _ in range(3):
        sizes.look()
        assert sizes.of(a_pod())(JOBSET) == DeclaredGroup(8)
    assert len(objects.asked) == 1
    objects.found[PATHS[JOBSET]] = jobset(1)
    now += 61
    assert sizes.of(a_pod())(JOBSET) == DeclaredGroup(2)
    objects.found[PATHS[JOBSET]] = 500
    now += 61
    assert sizes.of(a_pod())(JOBSET) == DeclaredGroup(2)


def test_the_owner_says_which_kind_of_training_job_it_is(objects: Objects, transport: Transport) -> None:
    replicas = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}}
    objects.found[PATHS[PYTORCH]] = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "bert", "namespace": "default"},
        "spec": replicas,
    }
    sizes = GroupSizes(transport)
    assert sizes.of(a_pod("PyTorchJob"))(PYTORCH) == DeclaredGroup(4)
    assert objects.asked == [PATHS[PYTORCH]]


@pytest.mark.parametrize("code", [403, 404])
def test_an_object_that_may_not_be_read_is_unknown(code: int, objects: Objects, transport: Transport) -> None:
    objects.found[PATHS[JOBSET]] = code
    sizes = GroupSizes(transport)
    assert sizes.of(a_pod())(JOBSET) is None
    assert not sizes.unread


def test_a_failure_is_tried_again_later(objects: Objects, transport: Transport) -> None:
    now = 0.0
    sizes = GroupSizes(transport, lambda: now)
    objects.found[PATHS[JOBSET]] = 500
    for _ in range(2):
        with pytest.raises(UnknownYetError):
            sizes.of(a_pod())(JOBSET)
    assert (len(objects.asked), sizes.unread) == (1, True)
    objects.found[PATHS[JOBSET]] = jobset(1)
    now += 3
    assert sizes.of(a_pod())(JOBSET) == DeclaredGroup(2)


def test_a_look_reads_a_few_objects(
    objects: Objects, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_sizes, "_MOST", 2)
    sizes = GroupSizes(transport)
    sizes.look()
    ask = sizes.of(a_pod())
    ask(JOBSET), ask(JOBSET._replace(name="b"))
    with pytest.raises(UnknownYetError):
        ask(JOBSET._replace(name="c"))
    sizes.look()
    assert ask(JOBSET._replace(name="c")) is None
