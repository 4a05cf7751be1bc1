"""Generated clusters and pods, for simulations without a trace: the same schema, from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from scheduler_ext.sim.openb import Traces
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind, TracePod
from scheduler_ext.sim.world import NodeShape

GENERATED = "generated"
GENERATOR_SEED = 0
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class _Machine:
    part: float
    model: str
    gpus: int
    cores: int
    memory_gib: int


# GPUs that a company may have bought over six years; parts of the nodes.
_MACHINES = (
    _Machine(0.22, "A100-80GB", 8, 128, 1024),
    _Machine(0.10, "H100-80GB", 8, 192, 2048),
    _Machine(0.18, "L40S", 4, 96, 512),
    _Machine(0.15, "V100-32GB", 8, 96, 768),
    _Machine(0.15, "A10", 2, 64, 256),
    _Machine(0.20, "T4", 2, 48, 192),
)
# Parts of the pods with no GPU, a part of one, or whole GPUs.
_GPUS = ((0, 0.12), (-1, 0.42), (1, 0.36), (2, 0.05), (4, 0.03), (8, 0.02))
_SHARE = -1
# Some services are deployed many times with equal requests; other requests are arbitrary.
_COMMON_SHARES_MILLI = ((250, 0.25), (330, 0.1), (500, 0.3), (750, 0.1), (0, 0.25))
_CONSTRAINED_PART = 0.1
_QOS = (("LS", 0.55), ("BE", 0.4), ("Burstable", 0.05))


def generate_traces(node_count: int, seed: int = GENERATOR_SEED) -> tuple[tuple[NodeShape, ...], Traces]:
    """Nodes and a trace of pods for them, as of ``read_traces``; equal for equal numbers and seeds."""
    nodes = tuple(generate_nodes(node_count, seed))
    return nodes, {GENERATED: tuple(generate_pods(nodes, seed))}


def generate_nodes(count: int, seed: int) -> list[NodeShape]:
    """Nodes of several kinds."""
    rng = random.Random(f"nodes {seed}")
    machines = rng.choices(_MACHINES, [machine.part for machine in _MACHINES], k=count)
    return [
        NodeShape(
            f"node-{index:05}",
            machine.cores * 1000,
            machine.memory_gib * 1024,
            machine.gpus,
            machine.model,
        )
        for index, machine in enumerate(machines)
    ]


def generate_pods(nodes: Sequence[NodeShape], seed: int) -> list[TracePod]:
    """Pods that request about as many GPUs as the nodes have, each at most as many as the largest node."""
    rng = random.Random(f"pods {seed}")
    gpus = [(count, part) for count, part in _GPUS if count <= max(node.gpus for node in nodes)]
    capacity_milli = sum(node.gpus for node in nodes) * GPU_MILLI
    by_model: dict[str, int] = {}
    for node in nodes:
        by_model[node.model] = by_model.get(node.model, 0) + node.gpus
    pods: list[TracePod] = []
    asked_milli = 0
    while asked_milli < capacity_milli:
        kind = _kind(rng, _drawn(rng, gpus), by_model)
        asked_milli += kind.demand_milli
        pods.append(TracePod(f"pod-{len(pods):05}", kind, _drawn(rng, _QOS)))
    return pods


def _kind(rng: random.Random, gpus: int, by_model: dict[str, int]) -> PodKind:
    models: tuple[str, ...] = ()
    if gpus and rng.random() < _CONSTRAINED_PART:
        models = tuple(
            sorted(set(rng.choices(list(by_model), list(by_model.values()), k=rng.choice((1, 2)))))
        )
    if not gpus:
        cores = rng.choice((2, 4, 8, 16, 32))
        return PodKind(cores * 1000, cores * rng.choice((2, 4)) * 1024)
    if gpus == _SHARE:
        share = _drawn(rng, _COMMON_SHARES_MILLI) or rng.randrange(10, GPU_MILLI, 10)
        cores = max(1, round(share / 125 * rng.choice((0.5, 1, 1.5))))
        return PodKind(cores * 1000, cores * 4 * 1024, 1, share, models)
    cores = gpus * rng.choice((4, 8, 11, 12, 16))
    return PodKind(cores * 1000, cores * rng.choice((4, 8)) * 1024, gpus, GPU_MILLI, models)


def _drawn(rng: random.Random, weighted: Sequence[tuple[_Value, float]]) -> _Value:
    return rng.choices([value for value, _ in weighted], [weight for _, weight in weighted])[0]
