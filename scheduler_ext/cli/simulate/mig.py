"""``scheduler-ext simulate mig``: how much of what is asked of MIG GPUs a policy can give."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from scheduler_ext.cli.simulate.options import (
    FiniteFloat,
    policy_option,
    report_options,
    seeds_option,
    sweep_options,
)
from scheduler_ext.cli.simulate.results import check_out, write_report
from scheduler_ext.sim.mig.geometry import read_geometry
from scheduler_ext.sim.mig.mig_churn_run import ARRIVALS, MigChurn, run_mig_churn
from scheduler_ext.sim.mig.mix import parse_mix
from scheduler_ext.sim.mig.policies import policy_factory, policy_names
from scheduler_ext.sim.mig.target import TARGETS
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
    type=FiniteFloat(0, 100, min_open=True),
    default=1.0,
    show_default=True,
    help="Slices that would be held on average if all pods were accepted, in parts of the slices there are.",
)
@policy_option(policy_factory, policy_names())
@seeds_option
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
@sweep_options(jobs=1)
@report_options
def mig(
    gpus: int,
    geometry_name: str,
    mix_text: str,
    load: float,
    policies: Sequence[str],
    seeds: Sequence[int],
    arrivals: int,
    target: str,
    jobs: int,
    backend: str,
    scheduler: str | None,
    output: str,
    out: Path | None,
) -> None:
    """Simulate MIG pods that come and leave on equal GPUs.

    Pods arrive at random (Poisson). Prints the slices that each policy accepts.
    """
    check_out(output, out)
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
    tasks = [partial(run_mig_churn, churn, name, seed) for name in policies for seed in seeds]
    with click.progressbar(length=len(tasks), file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        runs = run_all(tasks, jobs=jobs, backend=backend, scheduler=scheduler, progress=bar.update)
    write_report(runs, output, out)
