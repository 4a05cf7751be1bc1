"""explain with plain values."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from scheduler_ext.explain.explain import explain
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects
from tests.kube_objects import ANNOTATION, Json, gpu, gpu_node, holder, inventory, node, pod


def explained(asking: Json, *objects: Json, config: Configuration | None = None) -> Json:
    decoded = msgspec.json.decode(json.dumps(asking).encode(), type=kube.Pod)
    config = config or Configuration()
    read = read_objects(inventory(*objects))
    state = ClusterState("inventory.yaml", read, assemble(read, config.resource_names()))
    explanation = explain(decoded, state, config)
    json.dumps(explanation)  # plain values only
    return explanation


def only(explanation: Json) -> Json:
    (entry,) = explanation["nodes"]
    assert isinstance(entry, dict)
    return entry


def mig(*instances: tuple[str, int, int], held: tuple[int, ...] = ()) -> Json:
    """MIG on, with (profile, start, size) instances; an unknown holder has those whose start is in
    `held`.
    """
    return {
        "enabled": True,
        "instances": [
            {"uuid": f"MIG-{start}", "profile": profile, "start": start, "size": size}
            | ({"holder": holder("stranger")} if start in held else {})
            for profile, start, size in instances
        ],
    }


def free_node(name: str, gpus: int, labels: Json | None = None, **device: Any) -> list[Json]:
    """A node of free GPUs."""
    devices = [gpu(i, f"{name}-{i}", **device) for i in range(gpus)]
    return [gpu_node(name, devices), node(name, {"nvidia.com/gpu": str(gpus)}, labels=labels or {})]


def wish(limits: Json, **annotations: str) -> Json:
    """A pod with wishes, by annotation."""
    return pod("p", limits, annotations={ANNOTATION + k.replace("_", "-"): v for k, v in annotations.items()})
