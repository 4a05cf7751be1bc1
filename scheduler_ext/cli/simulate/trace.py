"""``scheduler-ext simulate trace``: policies on pods that come one after another."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from scheduler_ext.cli.inputs import read_config
from scheduler_ext.cli.output import printable
from scheduler_ext.cli.simulate.options import (
    FiniteFloat,
    IntreeWeight,
    TargetName,
    policy_option,
    report_options,
    seeds_option,
    sweep_options,
)
from scheduler_ext.cli.simulate.results import check_folder, check_out, check_plots, write_report
from scheduler_ext.sim.arrivals import PRIORITIES
from scheduler_ext.sim.experiment import Experiment
from scheduler_ext.sim.model_names import admits
from scheduler_ext.sim.plots import write_plots
from scheduler_ext.sim.policies import policy_factory, policy_names
from scheduler_ext.sim.policies.default import Default
from scheduler_ext.sim.protocols import PROTOCOLS, run_experiments
from scheduler_ext.sim.scheduler import TIES, Settings
from scheduler_ext.sim.trace_sources import GENERATOR_SEED, Traces, generate_traces, read_traces, write_traces
from scheduler_ext.sim.world import NodeShape

# Of a model's name in a note: a broken quote may make a cell of half a file.
_SHOWN_CHARACTERS = 80
_csv = click.Path(path_type=Path, dir_okay=False)
# As of --out.
_target = click.Path(path_type=Path)


@click.command()
@click.option("--nodes", type=_csv, help="CSV of the nodes, as in the openb traces.")
@click.option("--pods", type=_csv, multiple=True, help="CSV of the pods; several for several traces.")
@click.option(
    "--generate",
    type=click.IntRange(1, 100_000),
    default=200,
    show_default=True,
    help="How many nodes are made up, with pods for them, where no CSVs are given.",
)
@click.option(
    "--generator-seed",
    type=click.IntRange(0, 999_999_999),
    default=GENERATOR_SEED,
    show_default=True,
    help="What is made up: the same number, the same nodes and pods.",
)
@click.option(
    "--write",
    "written",
    type=_target,
    metavar="DIR",
    help="Folder for the CSVs of what is made up: nodes.csv and generated.csv.",
)
@click.option("--protocol", type=click.Choice(list(PROTOCOLS)), default="inflation", show_default=True)
@click.option(
    "--load",
    type=FiniteFloat(0, 10, min_open=True),
    default=1.3,
    show_default=True,
    help="What is asked in the end (inflation) or at a time (churn), in parts of the GPUs.",
)
@policy_option(policy_factory, policy_names())
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="ExtenderConfiguration file: the default policy takes its weights and its strategy.",
)
@seeds_option
@click.option(
    "--ties",
    type=click.Choice(TIES),
    default="random",
    show_default=True,
    help=(
        "Which of equally good nodes wins: any, as in kube-scheduler, or the first in an order by seed."
        " FGD as published needs --ties first."
    ),
)
@click.option(
    "--target",
    type=TargetName(),
    default="trace",
    show_default=True,
    help="What policies expect: the trace's pods, what came so far (online), or what came first (first:N).",
)
@click.option("--points", is_flag=True, help="Map every policy's scores to an extender's 0 to 10.")
@click.option(
    "--intree",
    type=IntreeWeight(),
    multiple=True,
    help="Add one of kube-scheduler's own scores; implies --points.",
)
@click.option(
    "--sample",
    type=click.IntRange(0, 100),
    default=100,
    show_default=True,
    help="Per cent of the nodes that kube-scheduler looks at; 0: as many as it does by default.",
)
@click.option(
    "--constrain",
    type=FiniteFloat(0, 100),
    default=0.0,
    show_default=True,
    help="Per cent of the pods with GPUs that are given one or two models they may go to.",
)
@click.option(
    "--priorities",
    type=click.Choice(PRIORITIES),
    default="none",
    show_default=True,
    help="In churn, pods evict pods of lower priority: by their QoS class, or drawn.",
)
@click.option(
    "--lifetimes",
    type=FiniteFloat(0, 1000, min_open=True),
    default=5.0,
    show_default=True,
    help="How long churn is measured, in mean lifetimes, after three to warm up.",
)
@sweep_options(jobs=1)
@report_options
@click.option(
    "--png",
    type=_target,
    help="Folder for plots of allocation and fragmentation against load, and of the cluster at the end.",
)
@click.pass_context
def trace(
    ctx: click.Context,
    nodes: Path | None,
    pods: Sequence[Path],
    generate: int,
    generator_seed: int,
    written: Path | None,
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
    constrain: float,
    priorities: str,
    lifetimes: float,
    jobs: int,
    backend: str,
    scheduler: str | None,
    output: str,
    out: Path | None,
    png: Path | None,
) -> None:
    """Compare placement policies on a trace of pods.

    Reports how much of the GPUs each policy fills.

    Inflation: pods stay until more was asked than there is. Churn: they come and leave at random.
    """
    _check(nodes, pods, protocol, priorities)
    if protocol != "churn" and _given(ctx, "lifetimes"):
        raise click.UsageError("--lifetimes: nobody leaves in inflation; take --protocol churn")
    if nodes is not None:
        _check_nothing_is_made_up(ctx)
    if config_file is not None and Default.name not in policies:
        raise click.UsageError(f"--config: only the policy {Default.name} is configured; add it or drop this")
    knobs = read_config(config_file).policy()
    check_out(output, out)
    check_plots("--png", png)
    check_folder("--write", written)
    shapes, traces = (
        read_traces(nodes, pods) if nodes is not None else generate_traces(generate, generator_seed)
    )
    if written is not None:
        write_traces(written, shapes, traces)
    _tell_of_missing_models(shapes, traces)
    settings = Settings(ties=ties, points=points, sampled_percent=sample, intree=dict(intree))
    experiments = [
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
            knobs=knobs,
        )
        for name, trace_pods in traces.items()
        for policy in policies
        for seed in seeds
    ]
    with click.progressbar(length=len(experiments), file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        outcomes = run_experiments(
            protocol, experiments, jobs=jobs, backend=backend, scheduler=scheduler, progress=bar.update
        )
    # The plots come last: whatever hinders them, the report is there.
    write_report([outcome.run for outcome in outcomes], output, out)
    if png is not None:
        write_plots(png, outcomes)


def _check(nodes: Path | None, pods: Sequence[Path], protocol: str, priorities: str) -> None:
    if (nodes is None) != (not pods):
        raise click.UsageError("--nodes and --pods come together; give both, or neither for made-up ones")
    if len({path.stem for path in pods}) < len(pods):
        raise click.UsageError("--pods: two files have the same name, by which their results are known")
    if priorities != "none" and protocol != "churn":
        raise click.UsageError("--priorities: nobody is evicted by inflation; take --protocol churn")


def _tell_of_missing_models(nodes: Sequence[NodeShape], traces: Traces) -> None:
    """They may be meant so, on a part of a cluster, and may be a misspelt model."""
    models = {node.model for node in nodes if node.gpus}
    for name, pods in traces.items():
        known = {
            wishes: any(admits(wishes, model) for model in models)
            for wishes in {pod.kind.models for pod in pods if pod.kind.models}
        }
        lost = [pod.kind.models for pod in pods if not known.get(pod.kind.models, True)]
        if lost:
            wanted = " or ".join(lost[0])[:_SHOWN_CHARACTERS]
            note = f"note: {name}: no node has a model that {len(lost)} pods ask for, such as {wanted};"
            click.echo(printable(f"{note} they count as rejected"), err=True)


def _given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is not ParameterSource.DEFAULT


def _check_nothing_is_made_up(ctx: click.Context) -> None:
    for name, option in (
        ("generate", "--generate"),
        ("generator_seed", "--generator-seed"),
        ("written", "--write"),
    ):
        if _given(ctx, name):
            raise click.UsageError(
                f"{option}: the nodes and pods of --nodes and --pods are files already; drop it"
            )
