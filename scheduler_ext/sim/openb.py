"""The CSV files of Alibaba's GPU cluster trace of 2023 ("openb"): nodes, and pods with parts of GPUs.
Columns: Weng et al., "Beware of Fragmentation" (USENIX ATC'23), alibaba/clusterdata cluster-trace-gpu-v2023.
The times of the pods are not read: they are no part of the requests."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from pathlib import Path

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind, TracePod
from scheduler_ext.sim.world import NodeShape

Traces = dict[str, tuple[TracePod, ...]]

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
# Some pod files have only the first five.
OPTIONAL_POD_COLUMNS = ("gpu_spec", "qos")
# More than any machine has, and small enough for sums in 64 bits.
_LARGEST = 10**12
_MOST_GPUS = 64
# Characters of a value in an error: with a broken quote, a cell may hold half a file.
_SHOWN_CHARACTERS = 80
# Python converts no more than 4,300 digits.
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,4000}")


class _Row:
    """One line of a file; its errors name file, line and column."""

    def __init__(self, path: Path, line: int, values: dict[str, str]) -> None:
        self._path, self._line, self._values = path, line, values

    def text(self, column: str) -> str:
        return (self._values.get(column) or "").strip()

    def number(self, column: str, most: int = _LARGEST) -> int:
        text = self.text(column)
        # `int` alone would take 1_000 and the digits of any script.
        if not _WHOLE_NUMBER.fullmatch(text):
            raise self.error(column, f"{_shown(text)!r} is no whole number; write one of 0 to {most}")
        value = int(text)
        if not 0 <= value <= most:
            raise self.error(column, f"{_shown(str(value))} is not within 0 to {most}")
        return value

    def error(self, column: str, problem: str) -> SimulationError:
        return SimulationError(f"{self._path}, line {self._line}, {column}: {problem}")


def read_traces(nodes_csv: Path, pods_csv: Sequence[Path]) -> tuple[tuple[NodeShape, ...], Traces]:
    """The nodes, and the pods of each file by its name without the suffix. Raises SimulationError, which
    names file, line and column."""
    return tuple(read_nodes(nodes_csv)), {path.stem: tuple(read_pods(path)) for path in pods_csv}


def write_traces(folder: Path, nodes: Sequence[NodeShape], traces: Traces) -> None:
    """Write `nodes.csv` and a CSV of pods for each trace, by its name, as `read_traces` reads them.
    Raises SimulationError if they cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimulationError(f"{folder}: cannot be written: {error.strerror}") from None
    write_nodes(folder / "nodes.csv", nodes)
    for name, pods in traces.items():
        write_pods(folder / f"{name}.csv", pods)


def read_nodes(path: Path) -> list[NodeShape]:
    """The nodes of a file; raises SimulationError, which names file, line and column."""
    nodes = []
    seen: set[str] = set()
    for row in _rows(path, NODE_COLUMNS):
        name = row.text("sn")
        if not name or name in seen:
            problem = f"{_shown(name)!r} names another node already" if name else "a node needs a name"
            raise row.error("sn", problem)
        seen.add(name)
        gpus = row.number("gpu", _MOST_GPUS)
        model = row.text("model")
        if gpus and not model:
            raise row.error("model", "a node with GPUs needs their model")
        nodes.append(NodeShape(name, row.number("cpu_milli"), row.number("memory_mib"), gpus, model))
    if not any(node.gpus for node in nodes):
        raise SimulationError(f"{path}: no node has a GPU; there is nothing to place on")
    return nodes


def read_pods(path: Path) -> list[TracePod]:
    """The pods of a file; raises SimulationError, which names file, line and column."""
    return [TracePod(row.text("name"), _kind(row), row.text("qos")) for row in _rows(path, POD_COLUMNS)]


def write_nodes(path: Path, nodes: Sequence[NodeShape]) -> None:
    """Write nodes as `read_nodes` reads them."""
    _write(path, NODE_COLUMNS, [astuple(node) for node in nodes])


def write_pods(path: Path, pods: Sequence[TracePod]) -> None:
    """Write pods as `read_pods` reads them; their priorities are not part of the schema."""
    rows = [(pod.name, *astuple(pod.kind)[:-1], "|".join(pod.kind.models), pod.qos) for pod in pods]
    _write(path, POD_COLUMNS + OPTIONAL_POD_COLUMNS, rows)


def _kind(row: _Row) -> PodKind:
    gpus = row.number("num_gpu", _MOST_GPUS)
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


def _rows(path: Path, needed: Sequence[str]) -> Iterator[_Row]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            columns = reader.fieldnames or ()
            for column in needed:
                if column not in columns:
                    raise SimulationError(
                        f"{path}, line 1: no column {column}; the first line names {', '.join(needed)}"
                    )
            # The reader would silently take the last of two equal columns.
            for column, count in Counter(filter(None, columns)).items():
                if count > 1:
                    raise SimulationError(
                        f"{path}, line 1, {_shown(column)}: is named twice; keep one of the two"
                    )
            row = None
            for values in reader:
                row = _Row(path, reader.line_num, values)
                if None in values:
                    # The cells after the last column.
                    cell = _shown(str(values[None][0]))
                    raise row.error(f"column {len(columns) + 1}", f"{cell!r} has no name in the first line")
                yield row
            if row is None:
                raise SimulationError(f"{path}: has no rows; write one per line after the column names")
    except OSError as error:
        raise SimulationError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise SimulationError(f"{path}: is no CSV in UTF-8: {error}") from None


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def _write(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)
    except OSError as error:
        raise SimulationError(f"{path}: cannot be written: {error.strerror}") from None
