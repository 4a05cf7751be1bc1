"""The nodes of the scheduler suite: eight idle GPUs each, in the API server and as the extender's inventory.

They are the idle half of the latency suite's cluster: H100 and A100 alternating, each node with its own state
through the little memory that daemons hold. kube-scheduler's counts and the extender's view agree: every node
has room.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.cluster import GPUS_PER_NODE, MAX_NODES, NodeClass, node_name, node_state
from benchmarks.inventory import node_objects, write_objects
from tests.e2e.cluster.api import Api

KIND = "whole"
_IDLE = (NodeClass.EMPTY, NodeClass.OTHER_MODEL)
MAX_IDLE_NODES = MAX_NODES // len(NodeClass) * len(_IDLE)
# More connections do not make the API server faster on two cores.
_CREATORS = 4


def gpus(nodes: int) -> int:
    """The number of GPUs on `nodes` nodes."""
    return nodes * GPUS_PER_NODE


def node_names(nodes: int) -> list[str]:
    """Their names."""
    return [node_name(index) for index in _indexes(0, nodes)]


def write_idle_inventory(path: Path, nodes: int, seed: int) -> None:
    """The inventory file of `nodes` nodes: GPUNodes and Nodes."""
    write_objects(path, (item for pair in _objects(0, nodes, seed) for item in pair))


def create_nodes(api: Api, first: int, last: int, seed: int) -> None:
    """Create nodes `first` to `last` - 1; a smaller cluster is the beginning of a larger one. Raises
    ApiError.
    """
    with ThreadPoolExecutor(_CREATORS) as pool:
        for _ in pool.map(lambda node: api.create("/api/v1/nodes", node), node_objects_of(first, last, seed)):
            pass


def node_objects_of(first: int, last: int, seed: int) -> Iterator[dict[str, Any]]:
    """Nodes `first` to `last` - 1 as the kubelet would register them; the API server assigns the uid."""
    for _, node in _objects(first, last, seed):
        described = {key: value for key, value in node["metadata"].items() if key != "uid"}
        yield {**node, "metadata": described}


def _objects(first: int, last: int, seed: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """GPUNode and Node of each."""
    for index in _indexes(first, last):
        report, node = node_objects(KIND, index, seed, node_state(KIND, index, seed))
        yield report, node


def _indexes(first: int, last: int) -> Iterator[int]:
    """The positions of the idle nodes in the latency suite's cluster, two in four."""
    for number in range(first, last):
        turn, which = divmod(number, len(_IDLE))
        yield turn * len(NodeClass) + _IDLE[which]
