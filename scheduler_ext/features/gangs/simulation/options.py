"""The options of `simulate trace` for gangs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import click
from click.core import ParameterSource

from scheduler_ext.cli.options import Parsed, bundled
from scheduler_ext.core.errors import SimulationError
from scheduler_ext.features.gangs.simulation.gang_churn import run_gang_churn
from scheduler_ext.features.gangs.simulation.jobs import STARTS, GangSettings
from scheduler_ext.sim.commands.options import FiniteFloat, names_of
from scheduler_ext.sim.experiment import Experiment, RunOutcome

_TRACE = "trace"


@dataclass(frozen=True, slots=True)
class GangOptions:
    """Which gangs arrive, and how their pods start, as given by `gang_options`. `part` is in per cent of the
    demand; "trace": the gangs of the trace; None: there are no gangs."""

    part: float | str | None
    starts: Sequence[str]
    patience: float

    def check(self, ctx: click.Context, protocol: str, load: float) -> None:
        """Raises click.UsageError for options that contradict each other."""
        if self.part is None:
            for name in ("starts", "patience"):
                if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
                    option = "--start" if name == "starts" else "--patience"
                    raise click.UsageError(f"{option}: is about gangs; give --gangs too")
            return
        if protocol != "churn":
            raise click.UsageError("--gangs: no pod leaves in inflation; take --protocol churn")
        if load >= 1:
            raise click.UsageError(
                f"--gangs: pods wait until they fit, and with --load {load:g} ever more of them; "
                "give a load below 1, such as 0.9"
            )

    def runs(self) -> Sequence[Callable[[Experiment], RunOutcome]]:
        """A run of churn with gangs for each start; none without gangs."""
        if self.part is None:
            return ()
        percent = None if isinstance(self.part, str) else self.part
        return [
            partial(
                run_gang_churn,
                gangs=GangSettings(percent=percent, start=start, patience=self.patience),
            )
            for start in self.starts
        ]


def _part(text: str) -> float | str:
    if text == _TRACE:
        return text
    try:
        percent = float(text)
    except ValueError:
        percent = math.nan
    if not 0 < percent <= 100:
        raise SimulationError(f"{text[:40]!r}: give the part of the demand in per cent, or {_TRACE}")
    return percent


gang_options = bundled(
    GangOptions,
    "gangs",
    click.option(
        "--gangs",
        "part",
        type=Parsed("PERCENT|trace", _part),
        help="Part of the demand in churn that gangs of 2 to 16 pods request, or trace: its own gangs.",
    ),
    click.option(
        "--start",
        "starts",
        type=names_of(STARTS),
        default=",".join(STARTS),
        metavar="NAME,...",
        help="How pods of gangs start: alone, together by the planner, or so with stated durations (timed).",
    ),
    click.option(
        "--patience",
        type=FiniteFloat(0, 1000, min_open=True),
        default=1.0,
        help="Mean lifetimes after which a gang that started alone and in part begins again.",
    ),
)
