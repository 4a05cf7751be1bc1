"""Values that only simulations take, and the options that they share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from scheduler_ext.cli.options import Command, together
from scheduler_ext.cli.simulate.results import FORMS
from scheduler_ext.cli.simulate.seeds import Seeds
from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.expectation import first_count
from scheduler_ext.sim.intree_scores import INTREE_SCORES
from scheduler_ext.sim.sweep import BACKENDS


class FiniteFloat(click.FloatRange):
    """A number in a range; nan, which is in every range, is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{number} is no finite number", param, ctx)
        return number


class Jobs(click.ParamType[int]):
    """How many runs go side by side: 1 or more, or -1 for one per core."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        jobs = click.INT.convert(value, param, ctx)
        if jobs < 1 and jobs != -1:
            self.fail(f"{jobs} runs at a time; give 1 or more, or -1 for one per core", param, ctx)
        return int(jobs)


def split_names(text: str) -> tuple[str, ...]:
    """The names between commas, each once; raises SimulationError for an empty one."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if "" in names:
        raise SimulationError(f"{text[:80]!r} has an empty name; write names with one comma between two")
    return names


class Names(click.ParamType[tuple[str, ...]]):
    """Names separated by commas; ``known`` raises SimulationError for one that is not."""

    name = "names"

    def __init__(self, known: Callable[[str], object]) -> None:
        self._known = known

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        try:
            names = split_names(str(value))
            for name in names:
                self._known(name)
        except SimulationError as error:
            self.fail(str(error), param, ctx)
        return names


def policy_option(known: Callable[[str], object], names: Iterable[str]) -> Callable[[Command], Command]:
    """Which policies are simulated, of these ``names``; the product's own unless told."""
    return click.option(
        "--policy",
        "policies",
        type=Names(known),
        default="default",
        show_default=True,
        metavar="NAME,...",
        help=f"Of {', '.join(names)}.",
    )


class TargetName(click.ParamType[str]):
    """Which workload a policy is told to expect."""

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


seeds_option = click.option("--seeds", type=Seeds(), default="42-51", show_default=True)


def sweep_options(jobs: int) -> Callable[[Command], Command]:
    """Where and how the runs go, in the words of ``run_all``; so many jobs unless told."""
    return together(
        click.option(
            "--jobs",
            type=Jobs(),
            default=jobs,
            show_default=True,
            help="Runs side by side; -1: one per core.",
        ),
        click.option("--backend", type=click.Choice(BACKENDS), default="loky", show_default=True),
        click.option(
            "--scheduler", metavar="ADDRESS", help="Of the Dask or Ray cluster that the runs go to."
        ),
    )


# Whether a file can be written is asked when all options are known, and told like any other file's error.
report_options = together(
    click.option("-o", "--output", type=click.Choice(FORMS), default="table", show_default=True),
    click.option(
        "--out",
        type=click.Path(path_type=Path),
        help="File for the JSON or CSV instead of standard output.",
    ),
)
