"""Inputs of the policies: the openb traces of a folder, or the generator's clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.commands.options import split_names
from scheduler_ext.sim.generator import FAMILIES, GENERATED, generate_traces
from scheduler_ext.sim.openb import read_traces
from scheduler_ext.sim.trace_workload import TracePod
from scheduler_ext.sim.world import TraceNode

NODES_CSV = "openb_node_list_gpu_node.csv"
PODS_CSV = "openb_pod_list_"
GENERATED_NODES = 300


@dataclass(frozen=True, slots=True)
class Trace:
    """A cluster, and the pods that arrive at it."""

    nodes: tuple[TraceNode, ...]
    pods: tuple[TracePod, ...]


Inputs = Mapping[str, Trace]


def read_folder(folder: Path, variants: str | None = None) -> Inputs:
    """The traces of a folder by the names of their variants, or only the named ones, separated by commas.

    Raises SimulationError naming the file or the option.
    """
    files = {path.stem.removeprefix(PODS_CSV): path for path in sorted(folder.glob(f"{PODS_CSV}*.csv"))}
    try:
        wanted = list(files) if variants is None else list(split_names(variants))
    except SimulationError as error:
        raise SimulationError(f"--variants {error}") from None
    unknown = [name for name in wanted if name not in files]
    if unknown or not wanted:
        raise SimulationError(
            f"{folder}: has no {PODS_CSV}{unknown[0] if unknown else '*'}.csv; "
            f"it has {', '.join(files) or 'no traces'}"
        )
    nodes, pods = read_traces(folder / NODES_CSV, [files[name] for name in wanted])
    return {name: Trace(nodes, pods[files[name].stem]) for name in wanted}


def of_family(name: str, seed: int) -> Trace:
    """The generated cluster of a family, of its usual size, and pods for it."""
    shapes, traces = generate_traces(FAMILIES[name].nodes, seed, name)
    return Trace(shapes, traces[GENERATED])


def made_up(clusters: int = 1, nodes: int = GENERATED_NODES) -> Inputs:
    """That many clusters of the generator, with that many nodes, and pods for each."""
    inputs = {}
    for seed in range(clusters):
        shapes, traces = generate_traces(nodes, seed)
        inputs[f"{GENERATED}-{seed}" if clusters > 1 else GENERATED] = Trace(shapes, traces[GENERATED])
    return inputs
