"""Where a simulation's nodes and pods come from: CSV files, or the generator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.generator import generate_nodes, generate_pods
from scheduler_ext.sim.openb import read_nodes, read_pods, write_nodes, write_pods
from scheduler_ext.sim.trace_workload import TracePod
from scheduler_ext.sim.world import NodeShape

GENERATED = "generated"
GENERATOR_SEED = 0

Traces = dict[str, tuple[TracePod, ...]]


def read_traces(nodes_csv: Path, pods_csv: Sequence[Path]) -> tuple[tuple[NodeShape, ...], Traces]:
    """The nodes, and the pods of each file by the file's name without its ending.

    Raises SimulationError, which names file, line and column.
    """
    return tuple(read_nodes(nodes_csv)), {path.stem: tuple(read_pods(path)) for path in pods_csv}


def generate_traces(node_count: int, seed: int = GENERATOR_SEED) -> tuple[tuple[NodeShape, ...], Traces]:
    """The same from the generator: for so many nodes and a seed always the same."""
    nodes = tuple(generate_nodes(node_count, seed))
    return nodes, {GENERATED: tuple(generate_pods(nodes, seed))}


def write_traces(folder: Path, nodes: Sequence[NodeShape], traces: Traces) -> None:
    """Write ``nodes.csv`` and a CSV of pods for each trace, by its name, as ``read_traces`` reads them.

    Raises SimulationError where they cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimulationError(f"{folder}: cannot be written: {error.strerror}") from None
    write_nodes(folder / "nodes.csv", nodes)
    for name, pods in traces.items():
        write_pods(folder / f"{name}.csv", pods)
