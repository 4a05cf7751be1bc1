"""Rooms that are kept for other pods, in explanations and counts of a saved cluster."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from scheduler_ext.explain.explain import explain
from scheduler_ext.whatif.capacity import capacity
from scheduler_ext.wire.config import Configuration, InspectionSection
from scheduler_ext.wire.held_annotation import HELD_ANNOTATION
from scheduler_ext.wire.objects import read_pods
from scheduler_ext.wire.times import time_text
from tests.kube_objects import ANNOTATION, SHARE, Json, gpu, gpu_node, inventory, node, pod
from tests.views.seen import state

WHOLE = "nvidia.com/gpu"
CONFIGURATION = Configuration()
# Long ago, so that only the times in the file count.
REPORTED = 1_700_000_000.0
W = pod("w", {WHOLE: "2"})
FOR_W = {"for": "default/w", "priority": 10}
NOTE = (
    "a defragmentation holds room on a for pod default/w (annotation gpu.scheduler-ext.io/held of its "
    "GPUNode), as if a pod had it"
)


def cluster(*rooms: Json, left_s: float = 60.0, waiting: Json = W) -> list[Json]:
    """Node a with two GPUs and these rooms, and a waiting pod."""
    until = time_text(REPORTED + left_s)
    held = gpu_node("a", [gpu(0), gpu(1, "GPU-1")], reportedAt=time_text(REPORTED))
    text = json.dumps([room | {"until": until} for room in rooms])
    held["metadata"]["annotations"] = {HELD_ANNOTATION: text}
    return [held, node("a", {WHOLE: "2"}), waiting]


def asked(objects: list[Json], asking: Json, config: Configuration = CONFIGURATION) -> tuple[Json, Json]:
    """The Explanation and the Capacity of a pod."""
    (read,) = read_pods(inventory(asking))
    there = state(*objects)
    return explain(read, there, config), capacity(read, there, config)


def asks(count: int = 1, name: str = "v", **spec: Any) -> Json:
    return pod(name, {WHOLE: str(count)}, **spec)


def without_uid(asking: Json) -> Json:
    metadata = {key: value for key, value in asking["metadata"].items() if key != "uid"}
    return asking | {"metadata": metadata}


@pytest.mark.parametrize(
    ("objects", "asking", "copies", "noted"),
    [
        pytest.param(cluster(FOR_W), asks(), 0, True, id="another pod finds the room taken"),
        pytest.param(cluster(FOR_W), asks(priority=11), 2, False, id="a more important pod may take it"),
        pytest.param(cluster(FOR_W), W, 1, False, id="the pod itself may use it"),
        pytest.param(cluster(FOR_W), without_uid(W), 1, False, id="so may its manifest, which has no uid"),
        pytest.param(
            cluster(FOR_W, left_s=-1.0),
            asks(),
            2,
            False,
            id="a room that ended before the last report is free",
        ),
        pytest.param(
            cluster(FOR_W | {"units": {WHOLE: 1}}), asks(), 1, True, id="an amount counts as it is written"
        ),
        pytest.param(
            cluster(waiting=W | {"status": {"nominatedNodeName": "a"}}),
            asks(),
            0,
            False,
            id="a nominated pod keeps its room as well",
        ),
        pytest.param(
            [
                *cluster(waiting=asks(name="other")),
                *(without_uid(asks(name=name)) | {"status": {"nominatedNodeName": "a"}} for name in "xy"),
            ],
            asks(),
            0,
            False,
            id="so do two that are written by hand, without uids",
        ),
    ],
)
def test_rooms_count_as_the_extender_counts_them(
    objects: list[Json], asking: Json, copies: int, noted: bool
) -> None:
    assert time.time() > REPORTED + 3600.0
    explanation, counted = asked(objects, asking)
    assert (explanation["fits"], counted["total"]) == (copies > 0, copies)
    for answer in (explanation, counted):
        assert (NOTE in answer["warnings"]) == noted


def test_the_explanation_says_by_what_the_place_is_held() -> None:
    explanation, counted = asked(cluster(FOR_W), asks())
    near = explanation["nearest"]
    assert near["text"].endswith(
        "; would fit if the room that a defragmentation holds for pod default/w (priority 10) ended"
    )
    assert near["wouldFitWithout"] == [
        {"namespace": "default", "name": "w", "priority": 10, "terminating": False, "expected": True}
    ]
    assert explanation["advice"][0] == (
        "It fits on a as soon as the room that a defragmentation holds for pod default/w (priority 10) ends; "
        "a pod with a priority above 10 may take its place now"
    )
    assert counted["nodes"] == [
        {"node": "a", "count": 0, "gpus": 0, "limit": "Insufficient nvidia.com/gpu per device"}
    ]


def test_the_pod_of_another_namespace_is_not_named_in_the_obstacle_if_it_is_hidden() -> None:
    asking = asks()
    asking["metadata"]["namespace"] = "research"
    hiding = Configuration(inspection=InspectionSection(hide_other_namespaces=True))
    explanation, _ = asked(cluster(FOR_W), asking, hiding)
    assert "holds for a pod of another namespace (priority 10) ended" in explanation["nearest"]["text"]
    assert explanation["nearest"]["wouldFitWithout"][0]["name"] is None


def test_an_amount_is_named_in_words() -> None:
    room = {"for": "2 free GPUs on one node", "units": {WHOLE: 2}}
    explanation, _ = asked(cluster(room), asks())
    assert "holds for 2 free GPUs on one node (priority 0) ended" in explanation["nearest"]["text"]


@pytest.mark.parametrize(
    ("devices", "copies"),
    [
        pytest.param({"devices": {"main": "GPU-1"}}, 2, id="only the GPU that it will have"),
        pytest.param({}, 0, id="the whole node, where no GPU is named"),
    ],
)
def test_a_share_that_fits_on_no_gpu_yet_keeps(devices: Json, copies: int) -> None:
    """Both GPUs have a quarter in use; the waiting pod takes a whole one, and others take a quarter."""
    quarters = [
        pod(f"q{i}", {SHARE: "20480"}, on="a", annotations={f"devices.{ANNOTATION}main": uuid})
        for i, uuid in enumerate(("GPU-0", "GPU-1"))
    ]
    held, _, waiting = cluster(FOR_W | devices, waiting=pod("w", {SHARE: "81920"}))
    shared = node("a", {SHARE: "204800"}, labels={"gpu.scheduler-ext.io/sharing": "memory"})
    (_, counted) = asked([held, shared, waiting, *quarters], pod("v", {SHARE: "20480"}))
    assert counted["total"] == copies
