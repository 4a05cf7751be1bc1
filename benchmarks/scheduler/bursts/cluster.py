"""The nodes of bursts: sixteen idle GPUs each, H100 and A100 in turn, with a report of each node."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.cluster.api import Api
from tests.e2e.cluster.control_plane import ControlPlane
from tests.kube_objects import gpu, gpu_node

_CRD = Path(__file__).resolve().parents[3] / "manifests" / "base" / "crd.yaml"
_RULES = "x-kubernetes-validations"
_REPORTS = "/apis/gpu.scheduler-ext.io/v1alpha1/gpunodes"
_MODELS = ("H100-80GB", "A100-80GB")
GPUS_PER_NODE = 16
_CREATORS = 4


def prepare(plane: ControlPlane, directory: Path) -> None:
    """Let the API server serve reports, without the rules of their fields: these take 2 ms of processor time
    for each GPU of a report, and no report is written while a burst is measured."""
    described = yaml.safe_load(_CRD.read_text(encoding="utf-8"))
    crd = directory / "crd.json"
    crd.write_text(json.dumps(_without_rules(described)), encoding="utf-8")
    plane.kubectl("apply", "--server-side", "-f", crd)
    plane.kubectl("wait", "--for=condition=Established", "-f", crd)


def _without_rules(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_rules(each) for key, each in value.items() if key != _RULES}
    return [_without_rules(each) for each in value] if isinstance(value, list) else value


def create_nodes(api: Api, numbers: Sequence[int]) -> None:
    """Nodes of these numbers and their reports. Raises ApiError."""
    with ThreadPoolExecutor(_CREATORS) as pool:
        for _ in pool.map(lambda number: _create_node(api, number), numbers):
            pass


def _create_node(api: Api, number: int) -> None:
    name, model = f"n-{number:05}", _MODELS[number % len(_MODELS)]
    room = {"cpu": "256", "memory": "2048Gi", "pods": "110", "nvidia.com/gpu": str(GPUS_PER_NODE)}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    status = {"capacity": room, "allocatable": room}
    node = api.create("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})
    report = gpu_node(name, [gpu(i, f"GPU-{name}-{i}", model=model) for i in range(GPUS_PER_NODE)])
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
    described = {**report, "metadata": {"name": name, "ownerReferences": [owner]}}
    created = api.create(_REPORTS, {key: value for key, value in described.items() if key != "status"})
    version = created["metadata"]["resourceVersion"]
    described["metadata"] = {**created["metadata"], "resourceVersion": version}
    api.request("PUT", f"{_REPORTS}/{name}/status", described)
