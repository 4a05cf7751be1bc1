"""The published tables of the scheduler suite, from its results: `python -m benchmarks.scheduler.published`.

README and the comparison have these tables word for word; `make bench-scheduler-all` measures them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.scheduler.contenders import NONE, NOOP_ALL, NOOP_FEW, OURS

RESULTS = Path(__file__).resolve().parents[1] / "results"


@dataclass(frozen=True, slots=True)
class Run:
    """A run of `make bench-scheduler`, and its pods in words."""

    result: str
    pods: str


README = Run("alike-shipped-1gpu-1.37", "equal pods")
RUNS = (
    README,
    Run("alike-shipped-1gpu-1.36", "equal pods"),
    Run("alike-shipped-8gpu-1.37", "equal pods of eight GPUs"),
    Run("alike-shipped-8gpu-1.36", "equal pods of eight GPUs"),
    Run("alike-default-1gpu-1.37", "equal pods, default topology spread"),
    Run("alike-default-1gpu-1.36", "equal pods, default topology spread"),
    Run("different-shipped-1gpu-1.37", "pods that all differ"),
)
NODES = (1000, 5000)


def readme_table(folder: Path = RESULTS) -> str:
    """The table of README."""
    rows = _rows(_report(README, folder))
    lines = ["| nodes | no extender | 100 names unread | all names unread | **scheduler-ext** |"]
    for nodes in sorted({nodes for nodes, _ in rows}):
        cells = [_cell(rows[nodes, each.name]) for each in (NONE, NOOP_FEW, NOOP_ALL, OURS)]
        lines.append(_line(f"{nodes:,}", *cells))
    return _with_rule(lines)


def comparison_table(folder: Path = RESULTS) -> str:
    """The table of the comparison."""
    return _with_rule(
        [
            "| nodes | pods | Kubernetes | batched | no extender | 100 names unread | **scheduler-ext** |",
            *(_line(*cells) for nodes in NODES for cells in _runs(nodes, folder)),
        ]
    )


def _runs(nodes: int, folder: Path) -> Iterator[list[str]]:
    for run in RUNS:
        report = _report(run, folder)
        rows = _rows(report)
        none = rows[nodes, NONE.name]
        release = report["scheduler"].rpartition(" v")[2]
        measured = (_cell(rows[nodes, each.name]) for each in (NONE, NOOP_FEW, OURS))
        yield [f"{nodes:,}", run.pods, release, f"{100 * none['batchedPart']:.0f} %", *measured]


def _report(run: Run, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"scheduler-{run.result}.json").read_text(encoding="utf-8"))
    return found


def _rows(report: dict[str, Any]) -> dict[tuple[int, str], dict[str, Any]]:
    return {(row["nodes"], row["contender"]): row for row in report["rows"]}


def _cell(row: dict[str, Any]) -> str:
    """The medians of the algorithm's time and of the rate."""
    return f"{row['algorithmMeanMs']['median']:.1f} ms, {row['podsPerSecond']['median']:.0f}/s"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _with_rule(lines: list[str]) -> str:
    rule = "|" + "---|" * (lines[0].count("|") - 1)
    return "\n".join([lines[0], rule, *lines[1:]])


if __name__ == "__main__":
    print(f"{readme_table()}\n\n{comparison_table()}")
