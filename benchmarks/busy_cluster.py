"""A cluster with two running pods on each node, and pods that fit on all of its nodes or on none.

Nodes have eight H100s, two of them held by a pod each. The held GPUs and the memory in use differ from node
to node. Pods of up to six GPUs therefore fit everywhere, and larger ones nowhere.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cluster import GPUS_PER_NODE, H100, DeviceState, NodeState, node_name
from benchmarks.inventory import node_objects, write_objects
from benchmarks.pods import pod_json
from benchmarks.shapes import PodShape

RUNNING = 2
# The requested numbers of GPUs, in turn, and whether every pod's request differs.
CASES = {"fits": (1, 2, 3, 4), "nowhere": (7, 8)}
ASKS = ("different", "alike")
# Less than every GPU has, so that it makes requests differ without changing the decision.
_LEAST_MIB = range(1_000, 60_000)


def node_names(nodes: int) -> list[str]:
    """The names of that many nodes."""
    return [node_name(index) for index in range(nodes)]


def write_busy_cluster(path: Path, nodes: int, seed: int) -> None:
    """Write the cluster as an inventory file."""
    write_objects(
        path,
        itertools.chain.from_iterable(
            node_objects("whole", index, seed, _node(random.Random(f"{seed}/busy/{index}")))
            for index in range(nodes)
        ),
    )


def pods(case: str, asks: str, seed: int) -> Iterator[bytes]:
    """An endless sequence of a case's pods, as sent by kube-scheduler, each with its own identity.

    "different": 59,000 pods have different requests; "alike": all pods request the same as the first.
    """
    rng = random.Random(f"{seed}/{case}/{asks}")
    sizes = itertools.cycle(CASES[case])
    for least_mib, gpus in zip(itertools.cycle(_LEAST_MIB), sizes, strict=False):
        shape = PodShape(
            ({"nvidia.com/gpu": str(gpus)},),
            frozenset(),
            {"gpu.scheduler-ext.io/min-memory": f"{least_mib}Mi"},
        )
        if asks == "alike":
            while True:
                yield pod_json(shape, rng)
        yield pod_json(shape, rng)


def _node(rng: random.Random) -> NodeState:
    held = set(rng.sample(range(GPUS_PER_NODE), RUNNING))
    free = DeviceState(H100)
    return tuple(
        dataclasses.replace(free, held=slot in held, used_mib=stray + (slot in held) * rng.randrange(70_000),
                            unaccounted_mib=stray)
        for slot in range(GPUS_PER_NODE)
        for stray in (rng.randrange(4, 900),)
    )  # fmt: skip
