"""A seeded benchmark workload: a cluster of N nodes and an endless rotation of pods that fit on half of it.

`python -m benchmarks.workload --kind whole --nodes 5000 --seed 42 FILE` writes the cluster as an inventory,
for an extender that is started by hand and then loaded with `python -m benchmarks.latency --url URL`; since a
smaller cluster is the beginning of a larger one, the largest inventory serves all sizes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from benchmarks.cluster import KINDS, MAX_NODES, node_class, node_name
from benchmarks.inventory import write_inventory
from benchmarks.pods import pod_json
from benchmarks.shapes import SHAPES, PodShape


@dataclass(frozen=True, slots=True)
class BenchmarkPod:
    """One pod: its JSON, and its shape, which determines where it fits."""

    shape: PodShape
    json: bytes


class Workload:
    """The requests for one kind of pod against a cluster of `nodes` nodes; same arguments, same bytes."""

    def __init__(self, kind: str, nodes: int, seed: int) -> None:
        if kind not in SHAPES:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        if nodes < 1:
            raise ValueError(f"nodes must be at least 1, got {nodes}")
        self.names = [node_name(index) for index in range(nodes)]
        self._classes = [node_class(index) for index in range(nodes)]
        self._shapes = SHAPES[kind]
        self._quoted = np.array([f'"{name}"' for name in self.names], dtype=object)
        self._rng = random.Random(f"{seed}/{kind}/pods")
        self._order = np.random.default_rng([seed, nodes])

    @property
    def rotation(self) -> int:
        """The number of different requests before the first is repeated."""
        return len(self._shapes)

    def pods(self) -> Iterator[BenchmarkPod]:
        """An endless sequence of pods, the shapes in turn, each pod with its own identity."""
        for shape in itertools.cycle(self._shapes):
            yield BenchmarkPod(shape, pod_json(shape, self._rng))

    def filter_body(self, pod: BenchmarkPod) -> bytes:
        """ExtenderArgs with every node's name, in a new order each time, because kube-scheduler's order
        varies too.
        """
        shuffled = self._quoted[self._order.permutation(len(self._quoted))]
        return _extender_args(pod, ",".join(shuffled.tolist()))

    def rejected(self, shape: PodShape) -> frozenset[str]:
        """The names of the nodes that have no room for `shape`."""
        pairs = zip(self.names, self._classes, strict=True)
        return frozenset(name for name, cls in pairs if cls not in shape.fits)


def prioritize_body(pod: BenchmarkPod, names: Sequence[str]) -> bytes:
    """ExtenderArgs with the names that filter returned, in filter's order, as kube-scheduler sends them."""
    return _extender_args(pod, ",".join(f'"{name}"' for name in names))


def _extender_args(pod: BenchmarkPod, quoted_names: str) -> bytes:
    return b'{"Pod":%b,"Nodes":null,"NodeNames":[%b]}' % (pod.json, quoted_names.encode())


@click.command()
@click.option("--kind", type=click.Choice(KINDS), default="whole", show_default=True)
@click.option("--nodes", type=click.IntRange(1, MAX_NODES), default=5000, show_default=True)
@click.option("--seed", type=int, default=42, show_default=True)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def main(kind: str, nodes: int, seed: int, file: Path) -> None:
    """Write the benchmark's cluster to FILE as an inventory."""
    states = write_inventory(file, kind, nodes, seed)
    click.echo(f"{file}: {nodes} nodes, {states} different GPU states")


if __name__ == "__main__":
    main()
