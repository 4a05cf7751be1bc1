"""`scheduler-ext simulate trace`: policies compared on a trace of pods."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from scheduler_ext.cli.files import read_config
from scheduler_ext.cli.options import FILE, config_option_with, together
from scheduler_ext.sim.arrivals import PRIORITIES
from scheduler_ext.sim.commands.options import (
    INTREE_WEIGHT,
    TARGET,
    FiniteFloat,
    Sweep,
    placement_policy_option,
    policies_of,
    report_options,
    seeds_option,
)
from scheduler_ext.sim.commands.results import check_plots
from scheduler_ext.sim.commands.trace_inputs import TraceInputs, trace_input_options
from scheduler_ext.sim.experiment import Experiment
from scheduler_ext.sim.extension import TraceOptions, extensions
from scheduler_ext.sim.placement_policy import PUBLISHED_TIES
from scheduler_ext.sim.plots import write_plots
from scheduler_ext.sim.protocols import PROTOCOLS
from scheduler_ext.sim.scheduler import NODE_ORDERS, TIES, Settings

_EXTENSIONS = extensions()
_HELP = """Compare placement policies on a trace of pods.

Reports the part of the GPUs that each policy allocates.

Inflation: pods arrive and stay until requests exceed the GPUs. Churn: pods arrive and leave at random."""


@click.command(help="".join([_HELP, *(each.trace_help for each in _EXTENSIONS)]))
@trace_input_options
@click.option(
    "--protocol",
    type=click.Choice(list(PROTOCOLS)),
    default="inflation",
    help="Whether pods arrive and stay (inflation), or arrive and leave (churn).",
)
@click.option(
    "--load",
    type=FiniteFloat(0, 10, min_open=True),
    default=1.3,
    help="Requested GPUs at the end (inflation) or at a time (churn), as a fraction of all GPUs.",
)
@placement_policy_option
@config_option_with(
    "config_file", help="ExtenderConfiguration file with weights and strategy for the default policy."
)
@seeds_option
@click.option(
    "--ties",
    type=click.Choice(TIES),
    default=PUBLISHED_TIES,
    help=(
        "Choice between equally good nodes: as each policy was published, random, as in kube-scheduler, or"
        " the first in an order by seed."
    ),
)
@click.option(
    "--target",
    type=TARGET,
    default="trace",
    help="Pods whose demand policies expect: all (trace), those so far (online), or the first N (first:N).",
)
@click.option(
    "--points", is_flag=True, help="Map the scores of every policy to 0..10, the range of an extender."
)
@click.option(
    "--intree", type=INTREE_WEIGHT, multiple=True, help="Add a score of kube-scheduler; implies --points."
)
@click.option(
    "--sample",
    type=click.IntRange(0, 100),
    default=100,
    help="Percentage of nodes that kube-scheduler examines; 0: its default.",
)
@click.option(
    "--node-order",
    type=click.Choice(NODE_ORDERS),
    default=NODE_ORDERS[0],
    help="Order of the nodes for --sample: drawn by seed, or nodes of one model beside each other.",
)
@click.option(
    "--model-affinity",
    "affinity",
    is_flag=True,
    help="Models of pods are required node affinity, which kube-scheduler knows when it takes a sample.",
)
@click.option(
    "--constrain",
    type=FiniteFloat(0, 100),
    default=0.0,
    help="Percentage of GPU pods that are restricted to one or two models.",
)
@click.option(
    "--priorities",
    type=click.Choice(PRIORITIES),
    default="pods",
    help="Preemption in churn, by priorities: those of the pods (in a dump), by QoS class, or drawn.",
)
@click.option(
    "--lifetimes",
    type=FiniteFloat(0, 1000, min_open=True),
    default=5.0,
    help="Measured time of churn in mean lifetimes, after a warm-up of three.",
)
@together(*(each.trace_options for each in _EXTENSIONS))
@report_options
@click.option(
    "--png",
    type=FILE,
    help="Folder for plots: allocation and fragmentation against load, and the cluster at the end.",
)
@click.pass_context
def trace(
    ctx: click.Context,
    /,
    inputs: TraceInputs,
    protocol: str,
    load: float,
    policies: Sequence[str],
    config_file: Path | None,
    seeds: Sequence[int],
    ties: str,
    target: str,
    points: bool,
    intree: Sequence[tuple[str, int]],
    sample: int,
    node_order: str,
    affinity: bool,
    constrain: float,
    priorities: str,
    lifetimes: float,
    sweep: Sweep,
    png: Path | None,
    **added: TraceOptions,
) -> None:
    inputs.check(ctx)
    _check(ctx, protocol, priorities, sample)
    for each in added.values():
        each.check(ctx, protocol, load)
    config = read_config(config_file)
    chosen = policies_of(policies)
    sweep.check()
    check_plots("--png", png)
    shapes, traces = inputs.read(config)
    settings = Settings(
        ties=ties,
        points=points,
        sampled_percent=sample,
        node_order=node_order,
        affinity=affinity,
        intree=dict(intree),
    )
    runs = [run for each in added.values() for run in each.runs()] or [PROTOCOLS[protocol]]
    tasks = [
        partial(
            run,
            Experiment(
                trace=name,
                nodes=shapes,
                pods=trace_pods,
                policy=policy,
                seed=seed,
                load=load,
                target=target,
                settings=settings,
                constrain_percent=constrain,
                priorities=priorities,
                measured=lifetimes,
                custom=custom,
                knobs=config.policy(),
            ),
        )
        for name, trace_pods in traces.items()
        for policy, custom in chosen.items()
        for run in runs
        for seed in seeds
    ]
    outcomes = sweep.results(tasks)
    # The plots come last: if they fail, the report is there.
    sweep.write([outcome.run for outcome in outcomes])
    if png is not None:
        write_plots(png, outcomes)


def _check(ctx: click.Context, protocol: str, priorities: str, sample: int) -> None:
    for name, option in (("node_order", "--node-order"), ("affinity", "--model-affinity")):
        if sample == 100 and ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{option}: is about a sample of the nodes; give --sample below 100 too")
    if priorities in ("qos", "drawn") and protocol != "churn":
        raise click.UsageError("--priorities: no pod is evicted in inflation; take --protocol churn")
    if ctx.get_parameter_source("lifetimes") is not ParameterSource.DEFAULT and protocol != "churn":
        raise click.UsageError("--lifetimes: no pod leaves in inflation; take --protocol churn")
