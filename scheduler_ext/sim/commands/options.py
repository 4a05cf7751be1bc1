"""Options of the simulations: policies, seeds, the machines for the runs, and the files for the report."""

import math
import re
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from scheduler_ext.cli.options import Command, Parsed, bundled, out_option_with, together
from scheduler_ext.cli.output import show
from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.commands.results import FORMS, check_file, print_means, report_text, write_text
from scheduler_ext.sim.custom_policy import CustomPolicy, entry_point_names, find_policy, is_custom
from scheduler_ext.sim.policies import POLICIES
from scheduler_ext.sim.policies.default import Default
from scheduler_ext.sim.scheduler import INTREE_SCORES
from scheduler_ext.sim.simulation_report import Run
from scheduler_ext.sim.sweep import BACKENDS, run_all
from scheduler_ext.sim.trace_workload import first_count

_SEEDS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
# A typing error must not start a million simulations.
_MOST_SEEDS = 10_000
_Value = TypeVar("_Value")


class FiniteFloat(click.FloatRange):
    """A number in a range, except nan, which click accepts in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{number} is no finite number", param, ctx)
        return number


def _checked_jobs(_ctx: click.Context, _param: click.Parameter, jobs: int) -> int:
    if jobs < 1 and jobs != -1:
        raise click.BadParameter(f"{jobs} runs at a time; give 1 or more, or -1 for one per core")
    return jobs


def split_names(text: str, known: Collection[str] | None = None) -> tuple[str, ...]:
    """The names between commas, each once; raises SimulationError for an empty or unknown name."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if "" in names:
        raise SimulationError(f"{text[:80]!r} has an empty name; write names with one comma between two")
    for name in names:
        if known is not None and name not in known:
            raise _unknown(name, known)
    return names


def _unknown(name: str, known: Collection[str]) -> SimulationError:
    return SimulationError(f"{name[:80]}: unknown; known are {', '.join(known)}")


def names_of(known: Collection[str]) -> Parsed[tuple[str, ...]]:
    """Some of the known names, separated by commas."""
    return Parsed("names", partial(split_names, known=known))


def _target(text: str) -> str:
    first_count(text)
    return text


def _intree_weight(text: str) -> tuple[str, int]:
    name, _, weight = text.partition("=")
    if name not in INTREE_SCORES:
        raise SimulationError(f"{name!r}: unknown; known are {', '.join(INTREE_SCORES)}")
    if not weight.isdecimal() or not 0 < int(weight) <= 100:
        raise SimulationError(f"{name}: write {name}=WEIGHT, of 1 to 100")
    return name, int(weight)


def _seeds(text: str) -> tuple[int, ...]:
    seeds: dict[int, None] = {}
    for item in text.split(","):
        match = _SEEDS.fullmatch(item.strip())
        if match is None:
            raise SimulationError(
                f"{item[:40]!r} is no seed; write numbers of at most nine digits, like 42-51 or 42,43"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise SimulationError(f"{item}: ends before it begins; write {last}-{first}")
        if last - first >= _MOST_SEEDS - len(seeds):
            raise SimulationError(f"{item}: more than {_MOST_SEEDS} seeds")
        seeds |= dict.fromkeys(range(first, last + 1))
    return tuple(seeds)


# The workload that a policy expects.
TARGET = Parsed("target", _target)
# One of kube-scheduler's own scores and its weight.
INTREE_WEIGHT = Parsed("NAME=WEIGHT", _intree_weight)
# Seeds and ranges of seeds, such as 42,43,50-52: both ends included, in this order, each once.
SEEDS = Parsed("seeds", _seeds)
seeds_option = click.option(
    "--seeds", type=SEEDS, default="42-51", help="Numbers and ranges, such as 42,50-55: a run for each."
)


def _policy_names(text: str) -> tuple[str, ...]:
    names = split_names(text)
    for name in names:
        if name not in POLICIES and not is_custom(name):
            others = f"a file such as ./{name[:80]}.py", "and entry points of installed packages"
            raise _unknown(name, (*POLICIES, *entry_point_names(), *others))
    return names


def policies_of(names: Sequence[str]) -> dict[str, CustomPolicy | None]:
    """The named policies by their names in reports, None for those of this package. Raises SimulationError
    for a file or an entry point that cannot be used, and for two policies of one name."""
    chosen: dict[str, CustomPolicy | None] = {}
    for text in names:
        custom = None if text in POLICIES else find_policy(text)
        name = text if custom is None else custom.name
        if name in chosen:
            raise SimulationError(f"{text}: another policy is named {name}; give one of them another name")
        chosen[name] = custom
    return chosen


# Policies of this package, files and entry points; `policies_of` loads them.
placement_policy_option = click.option(
    "--policy",
    "policies",
    type=Parsed("names", _policy_names),
    default=Default.name,
    metavar="NAME,...",
    help=f"Policies: {', '.join(POLICIES)}, the file of a policy (./mine.py), or the name of an entry point.",
)


def policy_option(names: Collection[str]) -> Callable[[Command], Command]:
    """The simulated policies, from these `names`."""
    return click.option(
        "--policy",
        "policies",
        type=names_of(names),
        default="default",
        metavar="NAME,...",
        help=f"Policies: {', '.join(names)}.",
    )


def sweep_options(jobs: int) -> Callable[[Command], Command]:
    """Where and how the runs go, named as the arguments of `run_all`; `jobs` is the default."""
    return together(
        click.option(
            "--jobs", type=int, callback=_checked_jobs, default=jobs, help="Parallel runs; -1: one per core."
        ),
        click.option(
            "--backend",
            type=click.Choice(BACKENDS),
            default="loky",
            help="Where the runs are: on this machine (loky), or on a cluster of machines.",
        ),
        click.option("--scheduler", metavar="ADDRESS", help="Address of a Dask or Ray cluster for the runs."),
    )


def run_tasks(
    tasks: Sequence[Callable[[], _Value]], *, jobs: int, backend: str, scheduler: str | None
) -> list[_Value]:
    """The results of `run_all`, with a progress bar on a terminal."""
    with click.progressbar(length=len(tasks), file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        return run_all(tasks, jobs=jobs, backend=backend, scheduler=scheduler, progress=bar.update)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Where and how the runs go, and their report, as given by `report_options`."""

    jobs: int
    backend: str
    scheduler: str | None
    output: str
    out: Path | None

    def check(self) -> None:
        """Raises click.UsageError or SimulationError for a report that cannot be written."""
        if self.out is not None and self.output == "table":
            raise click.UsageError("--out: a table is for a terminal; add -o json or -o csv")
        check_file("--out", self.out)

    def results(self, tasks: Sequence[Callable[[], _Value]]) -> list[_Value]:
        """The results of all tasks."""
        return run_tasks(tasks, jobs=self.jobs, backend=self.backend, scheduler=self.scheduler)

    def write(self, runs: Sequence[Run]) -> None:
        """Print the report, or write it to its file; raises SimulationError if it cannot be written."""
        for policy in dict.fromkeys(run.policy for run in runs if run.arrived_milli):
            if not any(run.allocated_milli for run in runs if run.policy == policy):
                show(f"Note: {policy} placed no pod", err=True)
        if self.output == "table":
            print_means(runs)
        elif self.out is None:
            click.echo(report_text(runs, self.output), nl=False)
        else:
            write_text("--out", self.out, report_text(runs, self.output))


# The command itself checks --out once all options are known, so that the error reads like any file's.
report_options = bundled(
    Sweep,
    "sweep",
    sweep_options(jobs=1),
    click.option(
        "-o",
        "--output",
        type=click.Choice(FORMS),
        default="table",
        help="Form of the output: tables of means over the seeds, or every run.",
    ),
    out_option_with(help="File for the JSON or CSV (default: standard output)."),
)
