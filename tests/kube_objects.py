"""Kubernetes objects as plain values; fields that a test does not name have usual values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

SHARE = "gpu.scheduler-ext.io/memory-mib"
ANNOTATION = "gpu.scheduler-ext.io/"
GFD_H100 = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.memory": "81559",
}


def gpu(
    index: int, uuid: str | None = None, *, total: int = 81920, model: str = "A100-80GB", **more: Any
) -> Json:
    """One healthy, empty device of a report; `more` has further fields."""
    return {
        "uuid": uuid or f"GPU-{index}",
        "index": index,
        "model": model,
        "memory": {"totalMiB": total},
    } | more


def holder(name: str, namespace: str = "default", **more: Any) -> Json:
    """A holder of a device, by name."""
    return {"namespace": namespace, "name": name} | more


def gpu_node(name: str, devices: Sequence[Json], **status: Any) -> Json:
    """A GPUNode; `status` are further fields of its status."""
    return {
        "apiVersion": "gpu.scheduler-ext.io/v1alpha1",
        "kind": "GPUNode",
        "metadata": {"name": name},
        "status": {"devices": list(devices)} | status,
    }


def node(
    name: str,
    allocatable: Json | None = None,
    *,
    uid: str | None = None,
    labels: Json | None = None,
    **spec: Any,
) -> Json:
    """A Node with room for anything but GPUs, which are as `allocatable` says."""
    room = {"cpu": "64", "memory": "512Gi", "pods": "110"} | (allocatable or {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": uid or f"uid-{name}", "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": room, "capacity": room},
    }


def pod(
    name: str,
    limits: Json | None = None,
    *,
    on: str | None = None,
    annotations: Json | None = None,
    phase: str | None = None,
    **spec: Any,
) -> Json:
    """A pod of one container "main"; `on` is the node it is bound to."""
    containers = [{"name": "main", "resources": {"limits": limits or {}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "annotations": annotations or {},
        },
        "spec": {"containers": containers, "nodeName": on} | spec,
        "status": {"phase": phase or ("Running" if on else "Pending")},
    }


def terminated(
    ended: Json, message: str, *, number: int = 1, running: bool = True, exit_code: int = 1
) -> Json:
    """The pod after a container ended with this message: the container is `running` again, or not. `number`
    tells its terminations apart."""
    state = {
        "terminated": {
            "exitCode": exit_code,
            "reason": "Error",
            "message": message,
            "finishedAt": f"2026-11-20T10:00:{number:02}Z",
            "containerID": f"containerd://{number}",
        }
    }
    status: Json = {"name": "main", "state": {"running": {}}, "lastState": state}
    if not running:
        status |= {"state": state, "lastState": {}}
    return ended | {"status": ended["status"] | {"containerStatuses": [status]}}


def inventory(*objects: Json) -> bytes:
    """An inventory file of these objects."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()


def names_body(asking: Json, names: Sequence[str]) -> bytes:
    """The body of filter or prioritize where nodeCacheCapable is true."""
    return json.dumps({"Pod": asking, "Nodes": None, "NodeNames": list(names)}).encode()


def nodes_body(asking: Json, nodes: Sequence[Json]) -> bytes:
    """The body of filter or prioritize where nodeCacheCapable is false."""
    return json.dumps(
        {"Pod": asking, "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None}
    ).encode()


def owner(kind: str = "ReplicaSet", name: str = "web") -> Json:
    """A controller, as in the metadata of its pods."""
    return {"kind": kind, "name": name, "uid": f"owner-{name}", "controller": True}


def owned(made: Json, kind: str = "ReplicaSet", name: str = "web") -> Json:
    """The pod with a controller."""
    made["metadata"]["ownerReferences"] = [owner(kind, name)]
    return made


def budget(name: str, allowed: int, **labels: str) -> Json:
    """A PodDisruptionBudget of the pods with these labels."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }
