"""Inventory files: the GPUNode reports of a benchmark cluster and the Node objects beside them, as JSON.

The file is the output of `kubectl get gpunodes,nodes -o json` for such a cluster. Held GPUs appear through
the holders in the report; there are no Pod objects.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.cluster import MIG_FREE, DeviceState, MigInstance, NodeState, node_name, node_state

MEMORY_SHARE_RESOURCE = "gpu.scheduler-ext.io/memory-mib"


def write_inventory(path: Path, kind: str, nodes: int, seed: int, distinct_states: int | None = None) -> int:
    """Write a List of `nodes` GPUNodes and Nodes, one object per line; returns the number of different GPU
    states.
    """
    states = set()

    def objects() -> Iterator[dict[str, Any]]:
        for index in range(nodes):
            state = node_state(kind, index, seed, distinct_states)
            states.add(state)
            yield from node_objects(kind, index, seed, state)

    write_objects(path, objects())
    return len(states)


def write_objects(path: Path, objects: Iterable[Mapping[str, Any]]) -> None:
    """Write a List of these objects, one per line."""
    with path.open("w", encoding="ascii") as file:
        file.write('{"apiVersion":"v1","kind":"List","metadata":{},"items":[')
        separator = "\n"
        for item in objects:
            file.write(separator + json.dumps(item, separators=(",", ":")))
            separator = ",\n"
        file.write("\n]}\n")


def node_objects(kind: str, index: int, seed: int, state: NodeState) -> Iterator[dict[str, Any]]:
    """The GPUNode and the Node object of node `index`, as an inventory file holds them."""
    rng = random.Random(f"{seed}/{kind}/identity/{index}")
    name = node_name(index)
    yield {
        "apiVersion": "gpu.scheduler-ext.io/v1alpha1",
        "kind": "GPUNode",
        "metadata": {"name": name},
        "status": {
            "reportedAt": "2026-11-20T12:00:00Z",
            "sequence": 1,
            "bootID": _uuid(rng),
            "driverVersion": "570.124.06",
            "cudaVersion": "12.8",
            "migStrategy": "mixed" if kind == "mig" else "none",
            "sharing": {"strategy": "none", "replicas": 1},
            "devices": [_device(rng, slot, device) for slot, device in enumerate(state)],
        },
    }
    labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.present": "true"}
    if kind == "share":
        labels["gpu.scheduler-ext.io/sharing"] = "memory"
    resources = {"cpu": "192", "memory": "2097152Mi", "pods": "110", **_advertised(kind, state)}
    yield {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": _uuid(rng), "labels": labels},
        "status": {"capacity": resources, "allocatable": resources},
    }


def _advertised(kind: str, state: NodeState) -> dict[str, str]:
    """The extended resources kubelet or the agent advertises for these GPUs."""
    if kind == "whole":
        return {"nvidia.com/gpu": str(sum(device.healthy for device in state))}
    if kind == "share":
        return {MEMORY_SHARE_RESOURCE: str(sum(device.gpu.total_mib for device in state))}
    counts = dict.fromkeys(MIG_FREE, 0)
    for device in state:
        for instance in device.instances:
            counts[instance.profile] += 1
    return {f"nvidia.com/mig-{profile}": str(count) for profile, count in counts.items()}


def _device(rng: random.Random, slot: int, device: DeviceState) -> dict[str, Any]:
    gpu = device.gpu
    holders = [_pod_reference(rng, memory_mib) for memory_mib in device.held_mib]
    if device.held:
        holders = [_pod_reference(rng, None)]
    return {
        "uuid": f"GPU-{_uuid(rng)}",
        "index": slot,
        "vendor": "nvidia",
        "model": gpu.model,
        "product": gpu.product,
        "architecture": gpu.architecture,
        "computeCapability": gpu.compute_capability,
        "memory": {
            "totalMiB": gpu.total_mib,
            "reservedMiB": gpu.reserved_mib,
            "usedMiB": device.used_mib,
            "unaccountedMiB": device.unaccounted_mib,
        },
        "health": {"state": "Healthy"} if device.healthy else {"state": "Unhealthy", "reason": "XID 79"},
        "numaNode": slot // 4,
        # Static instances need no list of placements, and the file stays half the size without it.
        "mig": {
            "enabled": bool(device.instances),
            "creatable": False,
            "gridSize": 8,
            "instances": [_instance(rng, instance) for instance in device.instances],
        },
        "holders": holders,
    }


def _instance(rng: random.Random, instance: MigInstance) -> dict[str, Any]:
    described: dict[str, Any] = {
        "uuid": f"MIG-{_uuid(rng)}",
        "profile": instance.profile,
        "start": instance.start,
        "size": instance.size,
    }
    if instance.held:
        described["holder"] = {"namespace": "ml-team", "name": f"serve-{rng.getrandbits(40):010x}"}
    return described


def _pod_reference(rng: random.Random, memory_mib: int | None) -> dict[str, Any]:
    reference: dict[str, Any] = {
        "uid": _uuid(rng),
        "namespace": "ml-team",
        "name": f"train-{rng.getrandbits(40):010x}",
        "container": "main",
    }
    if memory_mib is not None:
        reference["memoryMiB"] = memory_mib
    return reference


def _uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))
