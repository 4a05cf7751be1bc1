"""The nodes of a benchmark cluster: their names, and the state of their eight GPUs.

Every kind of pod meets four classes of nodes in equal parts, so that each shape of pod fits on exactly two of
the four:

EMPTY: H100, room for everything; fits modest pods and demanding ones
PARTLY: H100, room for modest pods only
FULL: both models, no room
OTHER_MODEL: A100, room for everything; fits demanding pods (they name no model)

Node i has class i mod 4 and all its properties follow from (seed, kind, i), so a smaller cluster is the
beginning of a larger one and a server that knows the larger one can answer for both.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable
from dataclasses import dataclass

KINDS = ("whole", "share", "mig")
GPUS_PER_NODE = 8
MAX_NODES = 1 << 20

# Free MiB that the classes guarantee on a GPU of a share node; pods request amounts well inside or well
# outside.
SHARE_MODEST_MIB = 24_000
SHARE_DEMANDING_MIB = 50_000


class NodeClass(enum.IntEnum):
    """A node's room; the value is the node's index modulo 4."""

    EMPTY = 0
    FULL = 1
    PARTLY = 2
    OTHER_MODEL = 3


@dataclass(frozen=True, slots=True)
class GpuModel:
    """NVML's values for one product; memory in MiB."""

    model: str
    product: str
    architecture: str
    compute_capability: str
    total_mib: int
    reserved_mib: int


H100 = GpuModel("H100-80GB", "NVIDIA H100 80GB HBM3", "hopper", "9.0", 81_559, 551)
A100 = GpuModel("A100-80GB", "NVIDIA A100-SXM4-80GB", "ampere", "8.0", 81_920, 595)


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One static MIG instance at [start, start + size) of the 8-unit grid, free or held by a pod."""

    profile: str
    start: int
    size: int
    held: bool


@dataclass(frozen=True, slots=True)
class DeviceState:
    """The parts of one GPU that a decision may depend on: no UUID, no names.

    `held_mib` lists the memory of each share holder; `held` marks a whole GPU that a pod holds.
    """

    gpu: GpuModel
    healthy: bool = True
    held: bool = False
    held_mib: tuple[int, ...] = ()
    used_mib: int = 0
    unaccounted_mib: int = 0
    instances: tuple[MigInstance, ...] = ()


NodeState = tuple[DeviceState, ...]


def node_name(index: int) -> str:
    """A cloud provider's node name: unique for indexes below MAX_NODES, in no visible order."""
    scattered = (index * 0x9E375 + 0x5A17) & 0xFFFFF  # an odd multiplier permutes the 2**20 numbers
    octets = (64 + (scattered >> 16), scattered >> 8 & 0xFF, scattered & 0xFF)
    return f"ip-10-{octets[0]}-{octets[1]}-{octets[2]}.us-west-2.compute.internal"


def node_class(index: int) -> NodeClass:
    """The class of node `index`."""
    return NodeClass(index % len(NodeClass))


def node_state(kind: str, index: int, seed: int, distinct_states: int | None = None) -> NodeState:
    """The eight GPUs of node `index`.

    `distinct_states` limits the number of different states in the whole cluster (at least one per class);
    None draws each node independently, which gives nearly every node its own state, as in practice.
    """
    turn = index // len(NodeClass)
    if distinct_states is not None:
        turn %= max(1, distinct_states // len(NodeClass))
    cls = node_class(index)
    rng = random.Random(f"{seed}/{kind}/{cls.name}/{turn}")
    return _STATE_OF_KIND[kind](rng, cls)


def _model_of(rng: random.Random, cls: NodeClass) -> GpuModel:
    if cls is NodeClass.FULL:
        return rng.choice((H100, A100))
    return A100 if cls is NodeClass.OTHER_MODEL else H100


def _whole_state(rng: random.Random, cls: NodeClass) -> NodeState:
    """PARTLY leaves 4 of 8 GPUs; a full node may have unhealthy GPUs instead of held ones."""
    gpu = _model_of(rng, cls)
    taken_count = {NodeClass.FULL: GPUS_PER_NODE, NodeClass.PARTLY: 4}.get(cls, 0)
    taken = set(rng.sample(range(GPUS_PER_NODE), taken_count))
    devices = []
    for slot in range(GPUS_PER_NODE):
        stray_mib = rng.randrange(4, 900)  # monitoring and persistence daemons belong to no pod
        if slot not in taken:
            devices.append(DeviceState(gpu, used_mib=stray_mib, unaccounted_mib=stray_mib))
        elif cls is NodeClass.FULL and rng.random() < 1 / 16:
            devices.append(DeviceState(gpu, healthy=False, used_mib=stray_mib, unaccounted_mib=stray_mib))
        else:
            used_mib = stray_mib + rng.randrange(8_000, 76_000)
            devices.append(DeviceState(gpu, held=True, used_mib=used_mib, unaccounted_mib=stray_mib))
    return tuple(devices)


def _share_state(rng: random.Random, cls: NodeClass) -> NodeState:
    """PARTLY leaves 24,000 to 33,000 MiB on 4 of 8 GPUs; full GPUs leave less than 1,500 MiB."""
    gpu = _model_of(rng, cls)
    allocatable_mib = gpu.total_mib - gpu.reserved_mib - -(-gpu.total_mib // 10)  # 10 % headroom, rounded up
    partly_full = set(rng.sample(range(GPUS_PER_NODE), 4)) if cls is NodeClass.PARTLY else set()
    devices = []
    for slot in range(GPUS_PER_NODE):
        stray_mib = rng.randrange(4, 300)
        if cls in (NodeClass.EMPTY, NodeClass.OTHER_MODEL):
            held = rng.randrange(0, allocatable_mib - SHARE_DEMANDING_MIB - 1_000)
        elif slot in partly_full:
            held = allocatable_mib - SHARE_MODEST_MIB - 500 - rng.randrange(0, 8_500)
        else:
            held = allocatable_mib - 400 - rng.randrange(0, 1_000)
        cut = rng.randrange(512, held - 512) if held > 4_096 else 0
        holders = tuple(mib for mib in (cut, held - cut) if mib > 0)
        used_mib = stray_mib + int(held * rng.uniform(0.4, 1.0))
        devices.append(DeviceState(gpu, held_mib=holders, used_mib=used_mib, unaccounted_mib=stray_mib))
    return tuple(devices)


# Profile, start, size on the 8-unit grid of the 80 GB parts (NVIDIA MIG user guide, supported profiles).
_MIG_LAYOUTS: tuple[tuple[tuple[str, int, int], ...], ...] = (
    tuple(("1g.10gb", start, 1) for start in range(7)),
    (("3g.40gb", 0, 4), ("3g.40gb", 4, 4)),
    (("2g.20gb", 0, 2), ("2g.20gb", 2, 2), ("3g.40gb", 4, 4)),
    (*(("1g.10gb", start, 1) for start in range(4)), ("3g.40gb", 4, 4)),
)
# The instances that the classes guarantee to be free on a node, per profile: more than any pod requests.
MIG_FREE = {"1g.10gb": 4, "2g.20gb": 2, "3g.40gb": 2}


def _mig_state(rng: random.Random, cls: NodeClass) -> NodeState:
    """PARTLY has free 1g.10gb instances only."""
    gpu = _model_of(rng, cls)
    layouts = [*_MIG_LAYOUTS, *rng.choices(_MIG_LAYOUTS, k=GPUS_PER_NODE - len(_MIG_LAYOUTS))]
    rng.shuffle(layouts)
    places = [(slot, *instance) for slot, layout in enumerate(layouts) for instance in layout]
    rng.shuffle(places)
    guaranteed = dict.fromkeys(MIG_FREE, 0) if cls is NodeClass.FULL else dict(MIG_FREE)
    if cls is NodeClass.PARTLY:
        guaranteed.update({"2g.20gb": 0, "3g.40gb": 0})
    instances: list[list[MigInstance]] = [[] for _ in range(GPUS_PER_NODE)]
    for slot, profile, start, size in places:
        must_be_free = guaranteed[profile] > 0
        held = not must_be_free and (guaranteed[profile] == 0 or rng.random() < 0.5)
        if must_be_free:
            guaranteed[profile] = guaranteed[profile] - 1 or -1  # -1: guarantee met, the rest is random
        instances[slot].append(MigInstance(profile, start, size, held))
    return tuple(
        DeviceState(gpu, instances=tuple(sorted(own, key=lambda i: i.start)), used_mib=rng.randrange(40, 60))
        for own in instances
    )


_STATE_OF_KIND: dict[str, Callable[[random.Random, NodeClass], NodeState]] = {
    "whole": _whole_state,
    "share": _share_state,
    "mig": _mig_state,
}
