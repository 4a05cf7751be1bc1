"""The arriving pods, drawn from the pods of a trace by a seed."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.trace_workload import TracePod
from scheduler_ext.sim.world import Cluster, Longs

PRIORITIES = ("pods", "none", "qos", "drawn")
# Latency-sensitive pods of the traces come before best effort.
_PRIORITY_BY_QOS = {"Guaranteed": 2, "LS": 2, "Burstable": 1, "BE": 0}
_DRAWN_PRIORITIES = (0, 1, 2)
_DRAWN_PARTS = (0.5, 0.3, 0.2)
_DRAWN_MODELS = (1, 2)


def inflated(
    pods: Sequence[TracePod], capacity_milli: int, load: float, random: np.random.Generator
) -> list[TracePod]:
    """The trace in random order, then pods of it at random, up to `load` times the capacity. A trace that
    requests more loses random pods instead. The inflation protocol of Weng et al., USENIX ATC'23. Raises
    SimulationError if no pod requests a GPU or no pod is left."""
    asked = asked_milli(pods)
    most = load * capacity_milli
    order = list(random.permutation(len(pods)))
    total = int(asked.sum())
    while total > most:
        position = int(random.integers(len(order)))
        total -= int(asked[order[position]])
        order[position] = order[-1]
        order.pop()
    if len(order) == len(pods):
        drawn = int(random.integers(len(pods)))
        while total + asked[drawn] <= most:
            total += int(asked[drawn])
            order.append(drawn)
            drawn = int(random.integers(len(pods)))
    if not order:
        raise SimulationError(
            f"load {load:g}: pods ask more than that of the cluster's {capacity_milli // 1000} GPUs each; "
            "give more nodes or more load"
        )
    return [pods[index] for index in order]


def constrained(
    pods: Sequence[TracePod], cluster: Cluster, percent: float, random: np.random.Generator
) -> list[TracePod]:
    """The pods, with `percent` of the GPU pods restricted to one or two models. A model is drawn by its
    part of the cluster's GPUs; other pods keep their models."""
    gpus = np.bincount(cluster.model, weights=cluster.gpus, minlength=len(cluster.models))
    parts = gpus / gpus.sum()
    offered = int(np.count_nonzero(parts))
    result = []
    for pod in pods:
        if pod.kind.gpus and random.random() * 100.0 < percent:
            count = min(int(random.choice(_DRAWN_MODELS)), offered)
            drawn = random.choice(len(parts), size=count, replace=False, p=parts)
            models = tuple(sorted(cluster.models[index] for index in drawn))
            pod = replace(pod, kind=replace(pod.kind, models=models))
        result.append(pod)
    return result


def prioritised(pods: Sequence[TracePod], source: str, random: np.random.Generator) -> list[TracePod]:
    """The pods with their own priorities ("pods"), with none ("none"), by QoS class ("qos"), or at random
    ("drawn"). Raises SimulationError for "qos" if no pod has a QoS class."""
    if source == "pods":
        return list(pods)
    if source == "none":
        return [replace(pod, priority=0) for pod in pods]
    if source == "qos":
        if not any(pod.qos for pod in pods):
            raise SimulationError(
                "--priorities qos: no pod has a QoS class (column qos of --pods); take --priorities drawn"
            )
        return [replace(pod, priority=_PRIORITY_BY_QOS.get(pod.qos, 0)) for pod in pods]
    drawn = random.choice(_DRAWN_PRIORITIES, size=len(pods), p=_DRAWN_PARTS)
    return [replace(pod, priority=int(priority)) for pod, priority in zip(pods, drawn, strict=True)]


def with_spot(pods: Sequence[TracePod], cluster: Cluster) -> list[TracePod]:
    """The pods with what their priorities say about spot nodes, if the cluster has any."""
    if not cluster.spot.any():
        return list(pods)
    return [
        replace(pod, kind=replace(pod.kind, spot=pod.priority < 0 if pod.priority else None)) for pod in pods
    ]


def asked_milli(pods: Sequence[TracePod]) -> Longs:
    """The requests in thousandths of a GPU, `[pod]`; raises SimulationError if no pod requests a GPU."""
    asked = np.array([pod.kind.demand_milli for pod in pods], np.int64)
    if not asked.any():
        raise SimulationError("no pod requests a GPU; give pods that do")
    return asked
