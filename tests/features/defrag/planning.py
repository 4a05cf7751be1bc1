"""Clusters of a few nodes written by hand, and the plans on them."""

from __future__ import annotations

import time
from typing import Any

from scheduler_ext.features.defrag.movable import Rules
from scheduler_ext.features.defrag.plan import DefragPlan, free_gpus, make_plan, waiting_pod
from scheduler_ext.sources.clusterstate import ClusterState, state_of
from scheduler_ext.wire.config import Configuration, MemorySection
from scheduler_ext.wire.objects import read_objects
from scheduler_ext.wire.pod.pod_identity import pod_name
from tests.kube_objects import SHARE, Json, gpu, gpu_node, holder, inventory, node, owned, pod

WHOLE = "nvidia.com/gpu"
MIG_HALF = "nvidia.com/mig-3g.40gb"
CONFIGURATION = Configuration(memory=MemorySection(headroom_percent=0))


def whole_node(name: str, gpus: int, *holders: str, model: str = "A100-80GB", **spec: Any) -> list[Json]:
    """A node of whole GPUs; the first ones have these holders."""
    devices = [gpu(i, f"GPU-{name}-{i}", model=model) for i in range(gpus)]
    for device, name_of_holder in zip(devices, holders, strict=False):
        device["holders"] = [holder(name_of_holder)]
    return [gpu_node(name, devices), node(name, {WHOLE: str(gpus)}, **spec)]


def mig_node(name: str, *holders: str, gpus: int = 1, model: str = "A100-80GB") -> list[Json]:
    """A node of GPUs of two halves; the first ones have these holders."""
    devices = []
    for i in range(gpus):
        halves: list[Json] = []
        for start in (0, 4):
            half: Json = {"uuid": f"MIG-{name}-{i}-{start}", "profile": "3g.40gb", "start": start, "size": 4}
            number = 2 * i + len(halves)
            halves.append(half | ({"holder": holder(holders[number])} if number < len(holders) else {}))
        mig = {"enabled": True, "gridSize": 8, "instances": halves}
        devices.append(gpu(i, f"GPU-{name}-{i}", model=model, mig=mig))
    return [gpu_node(name, devices), node(name, {MIG_HALF: str(2 * gpus)})]


def share_node(name: str, gpus: int, model: str = "A100-80GB") -> list[Json]:
    """A node of memory shares."""
    devices = [gpu(i, f"GPU-{name}-{i}", model=model) for i in range(gpus)]
    labels = {"gpu.scheduler-ext.io/sharing": "memory"}
    return [gpu_node(name, devices), node(name, {SHARE: str(gpus * 81920)}, labels=labels)]


def whole_pod(name: str, on: str, gpus: int = 1, **more: Any) -> Json:
    """A pod that may be moved, with whole GPUs."""
    return owned(pod(name, {WHOLE: str(gpus)}, on=on, **more))


def state(*objects: Json) -> ClusterState:
    return state_of(read_objects(inventory(*objects)), "test", CONFIGURATION.resource_names())


def planned(*objects: Json, asks: str | int = "default/w", min_age_s: float = 0.0) -> DefragPlan:
    """The plan for the waiting pod w of these objects, or for a number of GPUs."""
    found = state(*objects)
    rules = Rules(min_age_s, time.time())
    if isinstance(asks, int):
        return make_plan([free_gpus(asks, found, CONFIGURATION)], found, CONFIGURATION, rules)
    (waiting,) = (each for each in found.objects.pods if pod_name(each) == asks)
    return make_plan([waiting_pod(waiting, found, CONFIGURATION)], found, CONFIGURATION, rules)


def moves(plan: DefragPlan) -> list[tuple[str, str, str]]:
    """(pod, from, to) of each move."""
    return [(move.pod.bound.name, move.pod.node, move.to) for move in plan.moves]
