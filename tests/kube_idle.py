"""A small cluster with pods that compute, pods that do not, and pods of which that is unknown."""

from __future__ import annotations

import time
from typing import Any

from tests.kube_objects import Json, gpu, gpu_node, holder, node, pod

WHOLE = "nvidia.com/gpu"


def ago(seconds: float) -> str:
    """A time of Kubernetes' API, so long ago."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))


def running(
    name: str, on: str, ran_s: float, namespace: str = "default", owner: str = "", **metadata: Any
) -> Json:
    """A pod with a GPU that has run for so long; `owner` is KIND/NAME, `metadata` has further fields."""
    found = pod(name, {WHOLE: "1"}, on=on)
    found["metadata"] |= {"namespace": namespace, "creationTimestamp": ago(ran_s)} | metadata
    found["status"]["startTime"] = ago(ran_s)
    if owner:
        kind, _, owned_by = owner.partition("/")
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": owned_by, "uid": "o", "controller": True}
        found["metadata"]["ownerReferences"] = [reference]
    return found


HOUR_S, DAY_S = 3600, 86_400
BUSY: Json = {
    "utilizationPercent": 90,
    "memoryUtilizationPercent": 40,
    "powerWatts": 650,
    "temperatureCelsius": 70,
    "smClockMHz": 1980,
    "throttleReasons": ["PowerCap"],
    "idleSeconds": 3,
    "xids": [{"xid": 31, "count": 3}],
}
CLUSTER = [
    node("h100", {WHOLE: "2"}),
    gpu_node(
        "h100",
        [
            gpu(0, "GPU-h0", model="H100-80GB", idleSeconds=2 * HOUR_S, holders=[holder("notebook", "lab")]),
            gpu(1, "GPU-h1", model="H100-80GB", holders=[holder("train", "prod")], **BUSY),
        ],
    ),
    running("notebook", "h100", DAY_S, "lab", "StatefulSet/notebook"),
    running("train", "h100", DAY_S, "prod", "Job/train"),
    node("t4", {WHOLE: "2"}),
    gpu_node(
        "t4",
        [
            gpu(0, "GPU-t0", model="T4", total=15360, idleSeconds=HOUR_S, holders=[holder("old", "prod")]),
            gpu(1, "GPU-t1", model="T4", total=15360, idleSeconds=HOUR_S, holders=[holder("new", "prod")]),
        ],
    ),
    running("old", "t4", HOUR_S, "prod"),
    running("new", "t4", 60, "prod"),
    node("plain", {WHOLE: "1"}),
    gpu_node("plain", [gpu(0, "GPU-p0", model="T4", total=15360, holders=[holder("unseen", "prod")])]),
    running("unseen", "plain", DAY_S, "prod"),
]
