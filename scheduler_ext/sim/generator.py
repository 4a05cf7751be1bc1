"""Generated clusters and pods, for simulations without a trace: the same schema, from a seed."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from scheduler_ext.sim.openb import Traces
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind, TracePod
from scheduler_ext.sim.world import NodeShape

GENERATED = "generated"
GENERATOR_SEED = 0
_Value = TypeVar("_Value")


# GPUs that a company may have bought over six years: CPU, MiB, GPUs and model, and the parts of the nodes.
_MACHINES = (
    ((128_000, 1024 * 1024, 8, "A100-80GB"), 0.22),
    ((192_000, 2048 * 1024, 8, "H100-80GB"), 0.10),
    ((96_000, 512 * 1024, 4, "L40S"), 0.18),
    ((96_000, 768 * 1024, 8, "V100-32GB"), 0.15),
    ((64_000, 256 * 1024, 2, "A10"), 0.15),
    ((48_000, 192 * 1024, 2, "T4"), 0.20),
)
# Parts of the pods with no GPU, a part of one, or whole GPUs.
_GPUS = ((0, 0.12), (-1, 0.42), (1, 0.36), (2, 0.05), (4, 0.03), (8, 0.02))
_SHARE = -1
# Some services are deployed many times with equal requests; other requests are arbitrary.
_COMMON_SHARES_MILLI = ((250, 0.25), (330, 0.1), (500, 0.3), (750, 0.1), (0, 0.25))
_CONSTRAINED_PART = 0.1
_QOS = (("LS", 0.55), ("BE", 0.4), ("Burstable", 0.05))


def generate_traces(node_count: int, seed: int = GENERATOR_SEED) -> tuple[tuple[NodeShape, ...], Traces]:
    """Nodes and a trace of pods for them, as of `read_traces`; equal for equal numbers and seeds."""
    nodes = tuple(generate_nodes(node_count, seed))
    return nodes, {GENERATED: tuple(generate_pods(nodes, seed))}


def generate_nodes(count: int, seed: int) -> list[NodeShape]:
    """Nodes of several kinds."""
    rng = random.Random(f"nodes {seed}")
    return [NodeShape(f"node-{index:05}", *_drawn(rng, _MACHINES)) for index in range(count)]


def generate_pods(nodes: Sequence[NodeShape], seed: int) -> list[TracePod]:
    """Pods that request about as many GPUs as the nodes have, each at most as many as the largest node."""
    rng = random.Random(f"pods {seed}")
    gpus = [(count, part) for count, part in _GPUS if count <= max(node.gpus for node in nodes)]
    capacity_milli = sum(node.gpus for node in nodes) * GPU_MILLI
    by_model: Counter[str] = Counter()
    for node in nodes:
        by_model[node.model] += node.gpus
    pods: list[TracePod] = []
    asked_milli = 0
    while asked_milli < capacity_milli:
        kind = _kind(rng, _drawn(rng, gpus), by_model)
        asked_milli += kind.demand_milli
        pods.append(TracePod(f"pod-{len(pods):05}", kind, _drawn(rng, _QOS)))
    return pods


def _kind(rng: random.Random, gpus: int, by_model: dict[str, int]) -> PodKind:
    if not gpus:
        cores = rng.choice((2, 4, 8, 16, 32))
        return PodKind(cores * 1000, cores * rng.choice((2, 4)) * 1024)
    models: tuple[str, ...] = ()
    if rng.random() < _CONSTRAINED_PART:
        drawn = rng.choices(list(by_model), list(by_model.values()), k=rng.choice((1, 2)))
        models = tuple(sorted(set(drawn)))
    if gpus == _SHARE:
        share = _drawn(rng, _COMMON_SHARES_MILLI) or rng.randrange(10, GPU_MILLI, 10)
        cores = max(1, round(share / 125 * rng.choice((0.5, 1, 1.5))))
        return PodKind(cores * 1000, cores * 4 * 1024, 1, share, models)
    cores = gpus * rng.choice((4, 8, 11, 12, 16))
    return PodKind(cores * 1000, cores * rng.choice((4, 8)) * 1024, gpus, GPU_MILLI, models)


def _drawn(rng: random.Random, weighted: Sequence[tuple[_Value, float]]) -> _Value:
    return rng.choices([value for value, _ in weighted], [weight for _, weight in weighted])[0]
