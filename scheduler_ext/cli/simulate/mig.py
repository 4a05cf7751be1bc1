"""``scheduler-ext simulate mig``: how much of what is asked of MIG GPUs a policy can give."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from scheduler_ext.cli.output import print_table
from scheduler_ext.cli.simulate.seeds import Seeds
from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.machine import describe_machine, machine_line
from scheduler_ext.sim.mig.churn import ARRIVALS, MigChurn, run_mig_churn
from scheduler_ext.sim.mig.geometry import read_geometry
from scheduler_ext.sim.mig.mix import parse_mix
from scheduler_ext.sim.mig.policies import policy_factory
from scheduler_ext.sim.mig.target import TARGETS
from scheduler_ext.sim.report import Run, as_csv, report, summary
from scheduler_ext.sim.sweep import run_all


@click.command()
@click.option("--gpus", type=click.IntRange(1, 100_000), default=100, show_default=True)
@click.option(
    "--geometry",
    "geometry_name",
    default="A100-80GB",
    show_default=True,
    metavar="NAME|FILE",
    help='A known GPU, or a JSON file {"grid":8,"profiles":[{"name","size","starts":[],"maxInstances":7}]}.',
)
@click.option(
    "--mix",
    "mix_text",
    default="uniform",
    show_default=True,
    metavar="PROFILE=PART,...",
    help="What pods ask for, in relative parts; or uniform, skew-small, skew-big, bimodal.",
)
@click.option(
    "--load",
    type=click.FloatRange(0, 100, min_open=True),
    default=1.0,
    show_default=True,
    help="Slices that would be held on average if all pods were accepted, in parts of the slices there are.",
)
@click.option("--policy", "policies", default="default", show_default=True, metavar="NAME,...")
@click.option("--seeds", type=Seeds(), default="42-51", show_default=True)
@click.option(
    "--arrivals",
    type=click.IntRange(1, 100_000_000),
    default=ARRIVALS,
    show_default=True,
    help="Pods that count, after the warm-up.",
)
@click.option(
    "--target",
    type=click.Choice(TARGETS),
    default="mix",
    show_default=True,
    help="What policies are told of the mix: the mix itself, or only the pods as they come.",
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Runs side by side.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True
)
@click.option("--out", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
def mig(
    gpus: int,
    geometry_name: str,
    mix_text: str,
    load: float,
    policies: str,
    seeds: Sequence[int],
    arrivals: int,
    target: str,
    jobs: int,
    output: str,
    out: Path | None,
) -> None:
    """Play Poisson arrivals of MIG pods on equal GPUs, and print the slices that each policy accepts."""
    if out is not None and output == "table":
        raise click.UsageError("--out: a table is for reading; add -o json or -o csv")
    geometry = read_geometry(geometry_name)
    churn = MigChurn(
        geometry=geometry,
        mix=parse_mix(mix_text, geometry),
        trace=mix_text,
        gpus=gpus,
        load=load,
        arrivals=arrivals,
        target=target,
    )
    names = list(dict.fromkeys(name.strip() for name in policies.split(",")))
    for name in names:
        # Before hours of work and not after them.
        policy_factory(name)
    tasks = [partial(run_mig_churn, churn, name, seed) for name in names for seed in seeds]
    with click.progressbar(length=len(tasks), file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        runs = run_all(tasks, jobs=jobs, progress=bar.update)
    _print(runs, output, out)


def _print(runs: Sequence[Run], output: str, out: Path | None) -> None:
    if output == "table":
        _print_means(runs)
        return
    text = (
        as_csv(runs)
        if output == "csv"
        else json.dumps(report(runs, machine_line(describe_machine())), indent=2) + "\n"
    )
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SimulationError(f"out {out}: {error.strerror}") from None


def _print_means(runs: Sequence[Run]) -> None:
    print_table(
        ("MIX", "POLICY", "SEEDS", "SLICES ACCEPTED %", "SLICES HELD %", "DECISIONS/S", "P99 MS"),
        [
            (
                row["trace"],
                row["policy"],
                row["seeds"],
                f"{row['sliceAcceptancePercent']:.2f}",
                f"{row['meanAllocationPercent']:.2f}",
                f"{row['decisionsPerSecond']:.0f}",
                f"{row['p99Ms']:.4f}",
            )
            for row in summary(runs)
        ],
    )
