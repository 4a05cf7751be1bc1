"""Reports of simulations: a table of means, or all runs as JSON or CSV; and checks of their files."""

import errno
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from scheduler_ext.cli.output import print_table
from scheduler_ext.core.errors import SimulationError
from scheduler_ext.machine import describe_machine, machine_line
from scheduler_ext.sim.plots import require_matplotlib
from scheduler_ext.sim.simulation_report import Run, as_csv, report, standard_error, summary

FORMS = ("table", "json", "csv")

_COLUMNS = {
    "meanAllocationPercent": "MEAN ALLOCATION %",
    "usefulAllocationPercent": "USEFUL %",
    "partialGangsPercent": "PARTIAL GANGS %",
    "sliceAcceptancePercent": "SLICE ACCEPTANCE %",
    "unallocatedGpus": "UNALLOCATED GPUS",
    "wholeNodesFree": "WHOLE NODES FREE",
    "allocatedValuePerHour": "ALLOCATED $/H",
    "fragmentationPercentAt90": "FRAGMENTED % AT 90",
    "evictedMilli": "EVICTED MILLI",
    "falseRefusals": "FALSE REFUSALS",
    "triesPerPod": "TRIES/POD",
    "mostTries": "MOST TRIES",
    "givenUp": "GIVEN UP",
    "deadlocked": "DEADLOCKED",
    "longestWait": "LONGEST WAIT",
    "decisionsPerSecond": "DECISIONS/S",
    "p99Ms": "P99 MS",
}
_LABELS = ("trace", "policy", "ties", "start", "seeds")


def check_file(option: str, path: Path | None) -> None:
    """Raises SimulationError for a file that cannot be written: before hours of work, not after them."""
    if path is None:
        return
    if os.path.isdir(path):
        raise unwritable(option, path, errno.EISDIR)
    # Opening it would truncate a file, or end a pipe for its reader.
    _check_access(option, path, path if os.path.exists(path) else path.parent)


def check_folder(option: str, path: Path | None) -> None:
    """Raises SimulationError for a folder, which need not exist yet, that cannot take files."""
    if path is None:
        return
    there = next(parent for parent in (path, *path.absolute().parents) if os.path.exists(parent))
    if not os.path.isdir(there):
        raise unwritable(option, path, errno.ENOTDIR)
    _check_access(option, path, there)


def check_plots(option: str, folder: Path | None) -> None:
    """Raises SimulationError for a folder that cannot take plots, or without the library that draws them."""
    check_folder(option, folder)
    if folder is not None:
        require_matplotlib()


def unwritable(option: str, path: Path, number: int) -> SimulationError:
    """The error for the path of an option, by the errno of the system."""
    return SimulationError(f"{option} {path}: cannot be written: {os.strerror(number)}")


def write_text(option: str, path: Path, text: str) -> None:
    """Write the file of an option; raises SimulationError if it cannot be written."""
    try:
        # Links, such as /dev/stdout, and pipes stay in place.
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.write_text(text, encoding="utf-8")
        else:
            _replace(path, text)
    except OSError as error:
        raise unwritable(option, path, error.errno or errno.EIO) from None


def _replace(path: Path, text: str) -> None:
    """Write a temporary file beside it first, so that a failure keeps the old content."""
    if not os.access(path.parent, os.W_OK):
        path.write_text(text, encoding="utf-8")
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        if path.exists():
            shutil.copymode(path, beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def report_text(runs: Sequence[Run], form: str) -> str:
    """All runs as "json" or "csv"."""
    if form == "csv":
        return as_csv(runs)
    # NaN is not JSON, and no result may be NaN.
    return json.dumps(report(runs, machine_line(describe_machine())), indent=2, allow_nan=False) + "\n"


def _check_access(option: str, path: Path, there: Path) -> None:
    """`there` is the file or folder that a write to `path` changes."""
    if not os.path.exists(there):
        raise unwritable(option, path, errno.ENOENT)
    if there != path and not os.path.isdir(there):
        raise unwritable(option, path, errno.ENOTDIR)
    if not os.access(there, os.W_OK):
        raise unwritable(option, path, errno.EACCES)


def print_means(runs: Sequence[Run]) -> None:
    """A table of the means over seeds, in the columns that apply to some run; then the refused requests."""
    means = summary(runs)
    loads = list(dict.fromkeys(load for mean in means for load in mean["allocationPercent"] or {}))
    columns = [name for name in _COLUMNS if any(mean[name] is not None for mean in means)]
    # MIG policies have no choice among equals.
    labels = [name for name in _LABELS if any(mean[name] is not None for mean in means)]
    header = [name.upper() for name in labels] + [f"ALLOCATED % AT {load}" for load in loads]
    rows = []
    for mean in means:
        errors = mean["standardError"] or {}
        by_load, error_by_load = mean["allocationPercent"] or {}, errors.get("allocationPercent") or {}
        cells = [mean[name] for name in labels]
        cells += [_cell(by_load.get(load), error_by_load.get(load)) for load in loads]
        rows.append(cells + [_cell(mean[name], errors.get(name)) for name in columns])
    print_table(header + [_COLUMNS[name] for name in columns], rows, wide=True)
    _print_waits(means)
    print_refused(runs)
    _print_legend(labels, columns, several=any(mean["seeds"] > 1 for mean in means))


def _print_waits(means: Sequence[Mapping[str, Any]]) -> None:
    """A table of the waits by the number of pods of a job, if jobs wait."""
    sizes = dict.fromkeys(name for mean in means for name in mean["medianWait"] or {})
    if not sizes:
        return
    click.echo("\nWait in mean lifetimes, median / 95th percentile, by the number of pods of a job:")
    labels = ["trace", "policy", "start"]
    rows = []
    for mean in means:
        medians, highs = mean["medianWait"], mean["p95Wait"]
        cells = [
            None if medians.get(name) is None else f"{medians[name]:.2f} / {highs[name]:.2f}"
            for name in sizes
        ]
        rows.append([mean[name] for name in labels] + cells)
    print_table([name.upper() for name in labels] + list(sizes), rows, wide=True)


def _print_legend(labels: Sequence[str], columns: Sequence[str], *, several: bool) -> None:
    """What the tables leave open."""
    texts = {
        "Each value is a mean over the seeds, ± its standard error.": several,
        "TIES: the choice among equally good nodes, the first one or a random one.": "ties" in labels,
        "START: the pods of a job start alone, or together; timed: they also state a duration.": (
            "start" in labels
        ),
        "USEFUL: GPUs of pods alone and of gangs that run whole. PARTIAL GANGS: GPUs of gangs that wait.": (
            "start" in labels
        ),
        "GIVEN UP: gangs that waited in part for too long. DEADLOCKED: those that waited for each other.": (
            "start" in labels
        ),
        "WHOLE NODES FREE: nodes on which no pod holds a GPU.": "wholeNodesFree" in columns,
        "FALSE REFUSALS: tries in which no examined node took a pod, while another one would have.": (
            "falseRefusals" in columns
        ),
        "ALLOCATED $/H: the value of the allocated GPUs per hour, in US dollars.": (
            "allocatedValuePerHour" in columns
        ),
    }
    if lines := [text for text, applies in texts.items() if applies]:
        click.echo("\n" + "\n".join(lines))


def print_refused(runs: Sequence[Run]) -> None:
    """A table of the refused part of all requests at the end, by class, if any."""
    classes = sorted({name for run in runs for name, milli in run.rejected_by_class.items() if milli})
    if not classes:
        return
    groups: dict[tuple[str, ...], list[Run]] = {}
    more = ["start"] if len({run.start for run in runs}) > 1 else []
    for run in runs:
        labels = (run.trace, run.policy, *(str(getattr(run, name)) for name in more))
        groups.setdefault(labels, []).append(run)
    rows = []
    for labels, group in groups.items():
        parts = (
            [100 * run.rejected_by_class.get(name, 0) / max(run.arrived_milli, 1) for run in group]
            for name in classes
        )
        rows.append([*labels, *(_cell(fmean(each), standard_error(each)) for each in parts)])
    click.echo("\nRejected demand in per cent of all demand, by class of pods:")
    print_table(["TRACE", "POLICY", *(name.upper() for name in more), *classes], rows, wide=True)


def _cell(value: float | None, error: float | None = None) -> str | None:
    if value is None:
        return None
    shown = f"{value:.0f}" if value >= 1000 else f"{value:.2f}"
    return shown if error is None else f"{shown}±{error:.2f}"
