"""What gangs need of a pod, and the patch that lets it go."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler_ext.core.request.gang_request import GATE
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.features.gangs.planning.gang import MemberState
from scheduler_ext.features.gangs.planning.gang_bounds import Keeping
from scheduler_ext.features.gangs.planning.gang_failures import GangFailure, Remembered
from scheduler_ext.features.gangs.wire.gang_pod import (
    gang_eviction,
    gang_pod,
    gate_patch,
    reduced,
)
from scheduler_ext.features.gangs.wire.nomination import START_BY, nomination
from scheduler_ext.wire import kube
from scheduler_ext.wire.gangs import names_gang, read_gang_request
from tests.kube_objects import Json
from tests.kube_objects import pod as pod_object
from tests.wire.decoded_pods import decoded

GANG = {"gpu.scheduler-ext.io/gang": "train", "gpu.scheduler-ext.io/gang-size": "2"}
OTHER = "example.com/mine"


def pod(*gates: str, **fields: Any) -> kube.Pod:
    if gates:
        fields["schedulingGates"] = [{"name": gate} for gate in gates]
    return decoded(pod_object("p", {"nvidia.com/gpu": "1"}, annotations=GANG, **fields))


@pytest.mark.parametrize(
    ("of", "state"),
    [
        pytest.param(pod(GATE), MemberState.GATED, id="behind the gate"),
        pytest.param(pod(GATE, OTHER), None, id="behind a gate of others too, it does not count yet"),
        pytest.param(pod(OTHER), None, id="behind a gate of others alone"),
        pytest.param(pod(), MemberState.WAITING, id="without gates"),
        pytest.param(pod(on="n1"), MemberState.BOUND, id="on a node"),
        pytest.param(pod(on="n1", phase="Succeeded"), MemberState.DONE, id="it has ended well"),
        pytest.param(pod(on="n1", phase="Failed"), None, id="it has failed"),
    ],
)
def test_the_state_of_a_member(of: kube.Pod, state: MemberState | None) -> None:
    assert gang_pod(of, ResourceNames()).state is state


def test_a_pod_that_is_being_deleted_is_no_member() -> None:
    document = pod_object("p", annotations=GANG, on="n1")
    document["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z"
    assert gang_pod(decoded(document), ResourceNames()).state is None


def test_a_deadline_is_read_from_the_pod() -> None:
    """From the condition that the planner writes into the status, and never from metadata."""
    forged = GANG | {START_BY: "2026-11-20T10:00:00Z"}
    document = pod_object("p", annotations=forged, labels={START_BY: "x"})
    assert gang_pod(decoded(document), ResourceNames()).deadline is None
    status = json.loads(nomination("ml", "p", "uid-p", None, deadline=1795168800.0))["status"]
    assert gang_pod(decoded(document | {"status": status}), ResourceNames()).deadline == 1795168800.0


@pytest.mark.parametrize("deadline", [None, 1795168800.0])
def test_what_a_planner_remembers_of_a_gang_is_read_from_the_pod(deadline: float | None) -> None:
    failure = GangFailure(
        1795168700.5, "on n2, pod p: 0/2 nodes are available", frozenset({"n2"}), 1795169000.0, 2
    )
    known = Remembered(failure, Keeping(1795168000.0, 1, 1795172000.0))
    status = json.loads(nomination("ml", "p", "uid-p", None, deadline=deadline, remembered=known))["status"]
    found = gang_pod(decoded(pod_object("p", annotations=GANG) | {"status": status}), ResourceNames())
    assert (found.remembered, found.deadline) == (known, deadline)
    status["conditions"][0]["message"] = "{}[]"
    other = gang_pod(decoded(pod_object("p", annotations=GANG) | {"status": status}), ResourceNames())
    assert (other.remembered, other.deadline) == (None, None)


def test_the_patch_removes_the_gate_of_gangs_wherever_it_is() -> None:
    (uid, there, removed) = gate_patch(gang_pod(pod(OTHER, GATE), ResourceNames()))
    assert uid == {"op": "test", "path": "/metadata/uid", "value": "uid-p"}
    assert there == {"op": "test", "path": "/spec/schedulingGates/1", "value": {"name": GATE}}
    assert removed == {"op": "remove", "path": "/spec/schedulingGates/1"}


def test_an_eviction_names_the_pod_by_uid_and_its_gang() -> None:
    found = gang_eviction("ml", "p", "uid-p", "ml/train")
    assert found["metadata"]["annotations"] == {"gpu.scheduler-ext.io/evicted-for": "ml/train"}
    assert found["deleteOptions"] == {"preconditions": {"uid": "uid-p"}}


@pytest.mark.parametrize(
    ("metadata", "names"),
    [
        pytest.param({"labels": {"app": "web"}, "annotations": {"a": "b"}}, False, id="other fields"),
        pytest.param({"annotations": GANG}, True, id="annotations"),
        pytest.param({"labels": {"jobset.sigs.k8s.io/jobset-name": "t"}}, True, id="a JobSet"),
        pytest.param({"labels": {"leaderworkerset.sigs.k8s.io/group-index": "0"}}, True, id="an LWS"),
        pytest.param({"labels": {"kueue.x-k8s.io/pod-group-name": "g"}}, True, id="Kueue"),
    ],
)
def test_most_pods_are_known_to_be_of_no_gang(metadata: Json, names: bool) -> None:
    assert names_gang(decoded({"metadata": metadata, "spec": {}})) is names


def test_the_reduced_pod_has_the_same_gang() -> None:
    lws = "leaderworkerset.sigs.k8s.io"
    document = pod_object("p", annotations={f"{lws}/size": "4", "note": "x" * 1000})
    document["metadata"]["labels"] = {f"{lws}/name": "llm", f"{lws}/group-index": "1", "app": "web"}
    whole = decoded(document)
    small = reduced(whole)
    assert read_gang_request(small) == read_gang_request(whole) is not None
    assert "note" not in ((small.metadata and small.metadata.annotations) or {})
