"""What a pod holds of a node's GPUs, and what it uses of that."""

from __future__ import annotations

import pytest

from scheduler_ext.core.node.node import Node
from scheduler_ext.views.placed_pods import placed_pods, placed_row
from tests.kube_objects import SHARE, Json, gpu, gpu_node, holder, node, pod
from tests.views.seen import nodes_of

WHOLE = "nvidia.com/gpu"
ON_FIRST = {"devices.gpu.scheduler-ext.io/main": "GPU-0"}


def one_node(*objects: Json) -> Node:
    (found,) = nodes_of(*objects).values()
    return found


RESERVED = {"totalMiB": 81920, "reservedMiB": 920, "usedMiB": 30000, "unaccountedMiB": 0}
MIG = {
    "enabled": True,
    "instances": [
        {"uuid": "MIG-0", "profile": "3g.40gb", "start": 0, "size": 4, "holder": holder("p")},
        {"uuid": "MIG-4", "profile": "3g.40gb", "start": 4, "size": 4},
    ],
}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            (
                gpu_node("n", [gpu(0, memory=RESERVED, holders=[holder("p")])]),
                pod("p", {WHOLE: "1"}, on="n"),
            ),
            (1.0, 81_000, 0),
            id="the agent sees processes, and none is its",
        ),
        pytest.param(
            (
                gpu_node("n", [gpu(0, memory=RESERVED, holders=[{"uid": "uid-p", "memoryMiB": 5000}])]),
                node("n", {SHARE: "72808"}, labels={"gpu.scheduler-ext.io/sharing": "memory"}),
                pod("p", {SHARE: "18202"}, on="n", annotations=ON_FIRST),
            ),
            (0.25, 18_202, 5000),
            id="a share is its part of the memory for shares",
        ),
        pytest.param(
            (
                gpu_node("n", [gpu(0, mig=MIG)], migStrategy="mixed"),
                pod("p", {"nvidia.com/mig-3g.40gb": "1"}, on="n"),
            ),
            (0.5, 40_192, None),
            id="a MIG instance is its part of the slots",
        ),
        pytest.param(
            (
                gpu_node("n", [gpu(0), gpu(1, "GPU-1")], sharing={"strategy": "time-slicing", "replicas": 4}),
                pod("p", {WHOLE: "2"}, on="n"),
            ),
            (0.5, 0, None),
            id="replicas are parts, and time-slicing promises no memory",
        ),
    ],
)
def test_a_pod_holds(objects: tuple[Json, ...], expected: tuple[float, int, int | None]) -> None:
    (placed,) = placed_pods(one_node(*objects))
    assert (placed.gpus, placed.requested_mib, placed.used_mib) == expected


def test_a_row_names_the_gpus_by_index_and_uuid() -> None:
    bound = pod("p", {WHOLE: "1"}, on="n", priority=7)
    bound["status"]["startTime"] = "2026-11-01T00:00:00Z"
    devices = [gpu(0), gpu(3, "GPU-three", holders=[holder("p", container="main")])]
    there = one_node(gpu_node("n", devices), bound)
    (placed,) = placed_pods(there)
    assert placed_row(placed, there.info) == {
        "namespace": "default",
        "name": "p",
        "uid": "uid-p",
        "node": "n",
        "state": "Bound",
        "priority": 7,
        "asks": "1 × nvidia.com/gpu",
        "gpus": 1.0,
        "requestedMiB": 81_920,
        "usedMiB": None,
        "since": 1_793_491_200.0,
        "devices": [{"container": "main", "uuid": "GPU-three", "index": 3, "profile": None}],
    }


def test_finished_pods_and_pods_without_gpus_hold_nothing() -> None:
    objects = pod("done", {WHOLE: "1"}, on="n", phase="Succeeded"), pod("plain", {"cpu": "1"}, on="n")
    assert placed_pods(one_node(gpu_node("n", [gpu(0)]), *objects)) == ()
