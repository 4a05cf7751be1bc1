"""Options of the simulations: policies, seeds, where the runs go, and where the report goes."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from scheduler_ext.cli.options import FILE, Command, bundled, together
from scheduler_ext.cli.simulate.results import FORMS, check_out, write_report
from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.expectation import first_count
from scheduler_ext.sim.scheduler import INTREE_SCORES
from scheduler_ext.sim.simulation_report import Run
from scheduler_ext.sim.sweep import BACKENDS

_SEEDS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
# A typing error must not start a million simulations.
_MOST_SEEDS = 10_000
_Result = TypeVar("_Result")


class FiniteFloat(click.FloatRange):
    """A number in a range, except nan, which click accepts in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{number} is no finite number", param, ctx)
        return number


class Jobs(click.ParamType[int]):
    """The number of parallel runs: 1 or more, or -1 for one per core."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        jobs = click.INT.convert(value, param, ctx)
        if jobs < 1 and jobs != -1:
            self.fail(f"{jobs} runs at a time; give 1 or more, or -1 for one per core", param, ctx)
        return int(jobs)


def split_names(text: str) -> tuple[str, ...]:
    """The names between commas, each once; raises SimulationError for an empty name."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if "" in names:
        raise SimulationError(f"{text[:80]!r} has an empty name; write names with one comma between two")
    return names


class Names(click.ParamType[tuple[str, ...]]):
    """Some of the known names, separated by commas."""

    name = "names"

    def __init__(self, known: Collection[str]) -> None:
        self._known = known

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        try:
            names = split_names(str(value))
        except SimulationError as error:
            self.fail(str(error), param, ctx)
        for name in names:
            if name not in self._known:
                self.fail(f"{name[:80]}: unknown; known are {', '.join(self._known)}", param, ctx)
        return names


class TargetName(click.ParamType[str]):
    """The workload that a policy expects."""

    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            first_count(str(value))
        except SimulationError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class IntreeWeight(click.ParamType[tuple[str, int]]):
    """One of kube-scheduler's own scores and its weight, as NAME=WEIGHT."""

    name = "NAME=WEIGHT"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        name, _, weight = str(value).partition("=")
        if name not in INTREE_SCORES:
            self.fail(f"{name!r}: unknown; known are {', '.join(INTREE_SCORES)}", param, ctx)
        if not weight.isdecimal() or not 0 < int(weight) <= 100:
            self.fail(f"{name}: write {name}=WEIGHT, of 1 to 100", param, ctx)
        return name, int(weight)


class Seeds(click.ParamType[tuple[int, ...]]):
    """Seeds and ranges of seeds, such as 42,43,50-52: both ends included, in this order, each once."""

    name = "seeds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        seeds: dict[int, None] = {}
        for item in str(value).split(","):
            match = _SEEDS.fullmatch(item.strip())
            if match is None:
                self.fail(
                    f"{item[:40]!r} is no seed; write numbers of at most nine digits, like 42-51 or 42,43",
                    param,
                    ctx,
                )
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first:
                self.fail(f"{item}: ends before it begins; write {last}-{first}", param, ctx)
            if last - first >= _MOST_SEEDS - len(seeds):
                self.fail(f"{item}: more than {_MOST_SEEDS} seeds", param, ctx)
            seeds |= dict.fromkeys(range(first, last + 1))
        return tuple(seeds)


seeds_option = click.option("--seeds", type=Seeds(), default="42-51", show_default=True)


def policy_option(names: Collection[str]) -> Callable[[Command], Command]:
    """The simulated policies, from these ``names``."""
    return click.option(
        "--policy",
        "policies",
        type=Names(names),
        default="default",
        show_default=True,
        metavar="NAME,...",
        help=f"Policies: {', '.join(names)}.",
    )


def sweep_options(jobs: int) -> Callable[[Command], Command]:
    """Where and how the runs go, named as the arguments of ``run_all``; ``jobs`` is the default."""
    return together(
        click.option(
            "--jobs",
            type=Jobs(),
            default=jobs,
            show_default=True,
            help="Parallel runs; -1: one per core.",
        ),
        click.option("--backend", type=click.Choice(BACKENDS), default="loky", show_default=True),
        click.option("--scheduler", metavar="ADDRESS", help="Address of a Dask or Ray cluster for the runs."),
    )


@dataclass(frozen=True, slots=True)
class Sweep:
    """Where and how the runs go, and their report, as given by ``report_options``."""

    jobs: int
    backend: str
    scheduler: str | None
    output: str
    out: Path | None

    def check(self) -> None:
        """Raises click.UsageError or SimulationError for a report that cannot be written."""
        check_out(self.output, self.out)

    def results(self, run: Callable[..., list[_Result]], count: int) -> list[_Result]:
        """The results of ``count`` runs by ``run``, with a progress bar on a terminal."""
        with click.progressbar(length=count, file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
            return run(jobs=self.jobs, backend=self.backend, scheduler=self.scheduler, progress=bar.update)

    def write(self, runs: Sequence[Run]) -> None:
        """Print the report or write it to its file. Raises SimulationError."""
        write_report(runs, self.output, self.out)


# The command itself checks --out once all options are known, so that the error reads like any file's.
report_options = bundled(
    Sweep,
    "sweep",
    sweep_options(jobs=1),
    click.option("-o", "--output", type=click.Choice(FORMS), default="table", show_default=True),
    click.option("--out", type=FILE, help="File for the JSON or CSV (default: standard output)."),
)
