"""The CSV files of Alibaba's GPU cluster trace of 2023 ("openb"): nodes, and pods with parts of GPUs.
Columns: Weng et al., "Beware of Fragmentation" (USENIX ATC'23), alibaba/clusterdata cluster-trace-gpu-v2023.
The times of the pods are not read: they are no part of the requests."""

import csv
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.csv_rows import MOST_GPUS, Row, csv_rows, shown
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind, TracePod
from scheduler_ext.sim.world import TraceNode

Traces = dict[str, tuple[TracePod, ...]]

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
# US dollars of one GPU per hour; without it, the value of the model.
VALUE_COLUMN = "value"
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
# Some pod files have only the first five.
OPTIONAL_POD_COLUMNS = ("gpu_spec", "qos")
# The name of a gang, the same for all of its pods; not in the openb traces.
GANG_COLUMN = "gang"


def read_traces(nodes_csv: Path, pods_csv: Sequence[Path]) -> tuple[tuple[TraceNode, ...], Traces]:
    """The nodes, and the pods of each file by its name without the suffix. Raises SimulationError, which
    names the file, and the line and column, if it is one of these."""
    nodes = tuple(read_nodes(nodes_csv))
    traces = {path.stem: tuple(read_pods(path)) for path in pods_csv}
    for path in pods_csv:
        if not any(pod.kind.gpus for pod in traces[path.stem]):
            raise SimulationError(f"{path}: no pod requests a GPU; give pods with num_gpu above 0")
    return nodes, traces


def write_traces(folder: Path, nodes: Sequence[TraceNode], traces: Traces) -> None:
    """Write `nodes.csv` and a CSV of pods for each trace, by its name, as `read_traces` reads them.
    Raises SimulationError if they cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimulationError(f"{folder}: cannot be written: {error.strerror}") from None
    write_nodes(folder / "nodes.csv", nodes)
    for name, pods in traces.items():
        write_pods(folder / f"{name}.csv", pods)


def read_nodes(path: Path) -> list[TraceNode]:
    """The nodes of a file; raises SimulationError, which names file, line and column."""
    nodes = []
    seen: set[str] = set()
    for row in csv_rows(path, NODE_COLUMNS):
        name = row.text("sn")
        if not name or name in seen:
            problem = f"{shown(name)!r} names another node already" if name else "a node needs a name"
            raise row.error("sn", problem)
        seen.add(name)
        gpus = row.number("gpu", MOST_GPUS)
        model = row.text("model")
        if gpus and not model:
            raise row.error("model", "a node with GPUs needs their model")
        value = row.amount(VALUE_COLUMN)
        nodes.append(TraceNode(name, row.number("cpu_milli"), row.number("memory_mib"), gpus, model, value))
    if not any(node.gpus for node in nodes):
        raise SimulationError(f"{path}: no node has a GPU; there is nothing to place on")
    return nodes


def read_pods(path: Path) -> list[TracePod]:
    """The pods of a file; raises SimulationError, which names file, line and column."""
    return [
        TracePod(row.text("name"), _kind(row), row.text("qos"), gang=row.text(GANG_COLUMN))
        for row in csv_rows(path, POD_COLUMNS)
    ]


def write_nodes(path: Path, nodes: Sequence[TraceNode]) -> None:
    """Write nodes as `read_nodes` reads them; their values and spot are not written."""
    _write(path, NODE_COLUMNS, [astuple(node)[: len(NODE_COLUMNS)] for node in nodes])


def write_pods(path: Path, pods: Sequence[TracePod]) -> None:
    """Write pods as `read_pods` reads them; their priorities and gangs are not written."""
    rows = []
    for pod in pods:
        kind = pod.kind
        amounts = kind.cpu_milli, kind.memory_mib, kind.gpus, kind.gpu_milli
        rows.append((pod.name, *amounts, "|".join(kind.models), pod.qos))
    _write(path, POD_COLUMNS + OPTIONAL_POD_COLUMNS, rows)


def _kind(row: Row) -> PodKind:
    gpus = row.number("num_gpu", MOST_GPUS)
    gpu_milli = row.number("gpu_milli", GPU_MILLI)
    if gpus and not gpu_milli:
        raise row.error("gpu_milli", f"0 of {gpus} GPUs; write 1 to {GPU_MILLI}, or num_gpu 0")
    if gpus > 1 and gpu_milli < GPU_MILLI:
        raise row.error("gpu_milli", f"{gpu_milli} of each of {gpus} GPUs; parts are of one GPU only")
    admitted = tuple(sorted({model.strip() for model in row.text("gpu_spec").split("|")} - {""}))
    # A pod without GPUs goes anywhere.
    return PodKind(
        row.number("cpu_milli"),
        row.number("memory_mib"),
        gpus,
        gpu_milli if gpus else 0,
        admitted if gpus else (),
    )


def _write(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)
    except OSError as error:
        raise SimulationError(f"{path}: cannot be written: {error.strerror}") from None
