"""Generated clusters and pods, for simulations without a trace: the same schema, from a seed."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from scheduler_ext.sim.openb import Traces
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind, TracePod
from scheduler_ext.sim.world import TraceNode

GENERATED = "generated"
GENERATOR_SEED = 0
_Value = TypeVar("_Value")
_Weighted = Sequence[tuple[_Value, float]]
# CPU, MiB of main memory, GPUs and their model.
_Machine = tuple[int, int, int, str]
_SHARE = -1


# GPUs that a company may have bought over six years.
_BOUGHT: _Weighted[_Machine] = (
    ((128_000, 1024 * 1024, 8, "A100-80GB"), 0.22),
    ((192_000, 2048 * 1024, 8, "H100-80GB"), 0.10),
    ((96_000, 512 * 1024, 4, "L40S"), 0.18),
    ((96_000, 768 * 1024, 8, "V100-32GB"), 0.15),
    ((64_000, 256 * 1024, 2, "A10"), 0.15),
    ((48_000, 192 * 1024, 2, "T4"), 0.20),
)
_QOS = (("LS", 0.55), ("BE", 0.4), ("Burstable", 0.05))


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A kind of cluster. Every choice comes with its part of the nodes or pods: `gpus` are GPUs of a pod, 0
    for none and -1 for a part of one; `shares` are thousandths of a GPU, 0 for an arbitrary part, because
    some services are deployed many times and other requests are arbitrary. `named` is the part of the GPU
    pods that accept one or two models only; `cores` are those of a pod for each whole GPU."""

    nodes: int
    machines: _Weighted[_Machine] = _BOUGHT
    gpus: _Weighted[int] = ((0, 0.12), (_SHARE, 0.42), (1, 0.36), (2, 0.05), (4, 0.03), (8, 0.02))
    shares: _Weighted[int] = ((250, 0.25), (330, 0.1), (500, 0.3), (750, 0.1), (0, 0.25))
    named: float = 0.1
    cores: Sequence[int] = (4, 8, 11, 12, 16)


MIXED = "mixed"
FAMILIES: Mapping[str, Family] = {
    MIXED: Family(nodes=200),
    "small": Family(nodes=30),
    "large": Family(nodes=1213, named=0.2),
    # One purchase of one model.
    "one-model": Family(
        nodes=100,
        machines=(((192_000, 2048 * 1024, 8, "H100-80GB"), 1.0),),
        gpus=((0, 0.05), (_SHARE, 0.25), (1, 0.4), (2, 0.15), (4, 0.1), (8, 0.05)),
        named=0.0,
    ),
    # Many small models, each on a part of a GPU.
    "inference": Family(
        nodes=300,
        machines=(
            ((48_000, 192 * 1024, 4, "L4"), 0.5),
            ((48_000, 192 * 1024, 4, "T4"), 0.3),
            ((64_000, 256 * 1024, 2, "A10"), 0.2),
        ),
        gpus=((0, 0.05), (_SHARE, 0.75), (1, 0.18), (2, 0.02)),
        shares=((125, 0.2), (200, 0.2), (250, 0.25), (400, 0.1), (500, 0.15), (0, 0.1)),
        named=0.05,
        cores=(4, 6, 8),
    ),
    # Pods of several GPUs, up to all of a node.
    "training": Family(
        nodes=150,
        machines=(
            ((128_000, 1024 * 1024, 8, "A100-80GB"), 0.6),
            ((192_000, 2048 * 1024, 8, "H100-80GB"), 0.4),
        ),
        gpus=((0, 0.05), (_SHARE, 0.1), (1, 0.35), (2, 0.2), (4, 0.15), (8, 0.15)),
        named=0.15,
        cores=(8, 11, 12),
    ),
    # CPU runs out before the GPUs do.
    "cpu-tight": Family(
        nodes=250,
        machines=(
            ((64_000, 512 * 1024, 8, "V100-32GB"), 0.4),
            ((48_000, 384 * 1024, 4, "L40S"), 0.4),
            ((96_000, 768 * 1024, 8, "A100-40GB"), 0.2),
        ),
    ),
    # Every part of a GPU is as likely as any other.
    "sizes": Family(
        nodes=100,
        machines=(
            ((128_000, 1024 * 1024, 8, "A100-80GB"), 0.5),
            ((96_000, 512 * 1024, 4, "L40S"), 0.5),
        ),
        gpus=((0, 0.05), (_SHARE, 0.7), (1, 0.2), (2, 0.05)),
        shares=((0, 1.0),),
        named=0.0,
    ),
    # Most pods accept one or two models only.
    "named": Family(nodes=400, named=0.6),
    # Nodes of one or two GPUs.
    "edge": Family(
        nodes=80,
        machines=(
            ((16_000, 64 * 1024, 1, "L4"), 0.4),
            ((24_000, 96 * 1024, 1, "T4"), 0.3),
            ((32_000, 128 * 1024, 2, "A10"), 0.3),
        ),
        gpus=((0, 0.1), (_SHARE, 0.55), (1, 0.3), (2, 0.05)),
        named=0.2,
        cores=(2, 4, 8),
    ),
}


def generate_traces(
    node_count: int, seed: int = GENERATOR_SEED, family: str = MIXED
) -> tuple[tuple[TraceNode, ...], Traces]:
    """Nodes and a trace of pods for them, as of `read_traces`, which the arguments determine."""
    nodes = tuple(generate_nodes(node_count, seed, family))
    return nodes, {GENERATED: tuple(generate_pods(nodes, seed, family))}


def generate_nodes(count: int, seed: int, family: str = MIXED) -> list[TraceNode]:
    """Nodes of the kinds of a family."""
    rng = random.Random(f"nodes {seed}")
    machines = FAMILIES[family].machines
    return [TraceNode(f"node-{index:05}", *_drawn(rng, machines)) for index in range(count)]


def generate_pods(nodes: Sequence[TraceNode], seed: int, family: str = MIXED) -> list[TracePod]:
    """Pods that request about as many GPUs as the nodes have, each at most as many as the largest node."""
    rng, kinds = random.Random(f"pods {seed}"), FAMILIES[family]
    gpus = [(count, part) for count, part in kinds.gpus if count <= max(node.gpus for node in nodes)]
    capacity_milli = sum(node.gpus for node in nodes) * GPU_MILLI
    by_model: Counter[str] = Counter()
    for node in nodes:
        by_model[node.model] += node.gpus
    pods: list[TracePod] = []
    asked_milli = 0
    while asked_milli < capacity_milli:
        kind = _kind(rng, _drawn(rng, gpus), by_model, kinds)
        asked_milli += kind.demand_milli
        pods.append(TracePod(f"pod-{len(pods):05}", kind, _drawn(rng, _QOS)))
    return pods


def _kind(rng: random.Random, gpus: int, by_model: dict[str, int], family: Family) -> PodKind:
    if not gpus:
        cores = rng.choice((2, 4, 8, 16, 32))
        return PodKind(cores * 1000, cores * rng.choice((2, 4)) * 1024)
    models: tuple[str, ...] = ()
    if rng.random() < family.named:
        drawn = rng.choices(list(by_model), list(by_model.values()), k=rng.choice((1, 2)))
        models = tuple(sorted(set(drawn)))
    if gpus == _SHARE:
        share = _drawn(rng, family.shares) or rng.randrange(10, GPU_MILLI, 10)
        cores = max(1, round(share / 125 * rng.choice((0.5, 1, 1.5))))
        return PodKind(cores * 1000, cores * 4 * 1024, 1, share, models)
    cores = gpus * rng.choice(family.cores)
    return PodKind(cores * 1000, cores * rng.choice((4, 8)) * 1024, gpus, GPU_MILLI, models)


def _drawn(rng: random.Random, weighted: _Weighted[_Value]) -> _Value:
    return rng.choices([value for value, _ in weighted], [weight for _, weight in weighted])[0]
