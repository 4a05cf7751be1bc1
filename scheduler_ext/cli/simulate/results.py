"""What all simulations take and print: a table of means, or all of it as JSON or CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from scheduler_ext.cli.output import print_table
from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.machine import describe_machine, machine_line
from scheduler_ext.sim.report import Run, as_csv, report, summary

FORMS = ("table", "json", "csv")

_COLUMNS = {
    "meanAllocationPercent": "MEAN ALLOCATION %",
    "sliceAcceptancePercent": "SLICE ACCEPTANCE %",
    "unallocatedGpus": "UNALLOCATED GPUS",
    "fragmentationPercentAt90": "FRAGMENTED % AT 90",
    "decisionsPerSecond": "DECISIONS/S",
    "p99Ms": "P99 MS",
}


def check_jobs(jobs: int) -> None:
    """Raises click.UsageError for no run at a time."""
    if jobs == 0:
        raise click.UsageError("--jobs: 0 runs do nothing; give 1 or more, or -1 for one per core")


def check_out(output: str, out: Path | None) -> None:
    """Raises click.UsageError for a table that is to go into a file."""
    if out is not None and output == "table":
        raise click.UsageError("--out: a table is for a terminal; add -o json or -o csv")


def write_report(runs: Sequence[Run], output: str, out: Path | None) -> None:
    """Print the runs, or write them to a file; raises SimulationError where it cannot be written."""
    if output == "table":
        print_table(*_table(runs))
        return
    text = as_csv(runs)
    if output == "json":
        text = json.dumps(report(runs, machine_line(describe_machine())), indent=2) + "\n"
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SimulationError(f"{out}: cannot be written: {error.strerror}") from None


def _table(runs: Sequence[Run]) -> tuple[list[str], list[list[Any]]]:
    """The means over seeds; only columns that apply to some run."""
    means = summary(runs)
    loads = list(dict.fromkeys(load for mean in means for load in mean["allocationPercent"] or {}))
    columns = [name for name in _COLUMNS if any(mean[name] is not None for mean in means)]
    header = ["TRACE", "POLICY", "SEEDS", *(f"ALLOCATED % AT {load}" for load in loads)]
    header += [_COLUMNS[name] for name in columns]
    rows = []
    for mean in means:
        by_load = mean["allocationPercent"] or {}
        cells = [mean["trace"], mean["policy"], mean["seeds"]]
        cells += [_cell(by_load.get(load)) for load in loads]
        rows.append(cells + [_cell(mean[name]) for name in columns])
    return header, rows


def _cell(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value:.0f}" if value >= 1000 else f"{value:.2f}"
