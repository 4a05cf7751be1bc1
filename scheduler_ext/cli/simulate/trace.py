"""`scheduler-ext simulate trace`: policies compared on a trace of pods."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from scheduler_ext.cli.inputs import read_config
from scheduler_ext.cli.options import FILE, config_option_with
from scheduler_ext.cli.output import show
from scheduler_ext.cli.simulate.options import (
    INTREE_WEIGHT,
    TARGET,
    FiniteFloat,
    Sweep,
    placement_policy_option,
    policies_of,
    report_options,
    seeds_option,
)
from scheduler_ext.cli.simulate.results import check_folder, check_plots
from scheduler_ext.sim.arrivals import PRIORITIES
from scheduler_ext.sim.experiment import Experiment
from scheduler_ext.sim.generator import GENERATOR_SEED, generate_traces
from scheduler_ext.sim.openb import Traces, read_traces, write_traces
from scheduler_ext.sim.placement_policy import PUBLISHED_TIES
from scheduler_ext.sim.plots import write_plots
from scheduler_ext.sim.policies.default import Default
from scheduler_ext.sim.protocols import PROTOCOLS
from scheduler_ext.sim.scheduler import TIES, Settings
from scheduler_ext.sim.trace_workload import admits, model_of
from scheduler_ext.sim.world import NodeShape

# Characters of a model's name in a note: with a broken quote, a cell may hold half a file.
_SHOWN_CHARACTERS = 80
_csv = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.option("--nodes", type=_csv, help="CSV of the nodes, in the format of the openb traces.")
@click.option(
    "--pods", type=_csv, multiple=True, help="CSV of the pods; repeat the option for several traces."
)
@click.option(
    "--generate",
    type=click.IntRange(1, 100_000),
    default=200,
    help="Number of generated nodes, with pods for them, if no CSVs are given.",
)
@click.option(
    "--generator-seed",
    type=click.IntRange(0, 999_999_999),
    default=GENERATOR_SEED,
    help="Seed of the generator: the same seed gives the same nodes and pods.",
)
@click.option(
    "--write", type=FILE, metavar="DIR", help="Folder for the generated nodes.csv and generated.csv."
)
@click.option("--protocol", type=click.Choice(list(PROTOCOLS)), default="inflation")
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
    "--constrain",
    type=FiniteFloat(0, 100),
    default=0.0,
    help="Percentage of GPU pods that are restricted to one or two models.",
)
@click.option(
    "--priorities",
    type=click.Choice(PRIORITIES),
    default="none",
    help="Preemption in churn, by priorities: from the QoS class, or drawn at random.",
)
@click.option(
    "--lifetimes",
    type=FiniteFloat(0, 1000, min_open=True),
    default=5.0,
    help="Measured time of churn in mean lifetimes, after a warm-up of three.",
)
@report_options
@click.option(
    "--png",
    type=FILE,
    help="Folder for plots: allocation and fragmentation against load, and the cluster at the end.",
)
@click.pass_context
def trace(
    ctx: click.Context,
    nodes: Path | None,
    pods: Sequence[Path],
    generate: int,
    generator_seed: int,
    write: Path | None,
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
    sweep: Sweep,
    png: Path | None,
) -> None:
    """Compare placement policies on a trace of pods.

    Reports the part of the GPUs that each policy allocates.

    Inflation: pods arrive and stay until requests exceed the GPUs. Churn: pods arrive and leave at random.
    """
    _check(ctx, nodes, pods, protocol, priorities)
    if config_file is not None and Default.name not in policies:
        raise click.UsageError(f"--config: only the policy {Default.name} is configured; add it or drop this")
    knobs = read_config(config_file).policy()
    chosen = policies_of(policies)
    sweep.check()
    check_plots("--png", png)
    check_folder("--write", write)
    shapes, traces = (
        read_traces(nodes, pods) if nodes is not None else generate_traces(generate, generator_seed)
    )
    if write is not None:
        write_traces(write, shapes, traces)
    _report_missing_models(shapes, traces)
    settings = Settings(ties=ties, points=points, sampled_percent=sample, intree=dict(intree))
    tasks = [
        partial(
            PROTOCOLS[protocol],
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
                knobs=knobs,
            ),
        )
        for name, trace_pods in traces.items()
        for policy, custom in chosen.items()
        for seed in seeds
    ]
    outcomes = sweep.results(tasks)
    # The plots come last: if they fail, the report is there.
    sweep.write([outcome.run for outcome in outcomes])
    if png is not None:
        write_plots(png, outcomes)


def _check(
    ctx: click.Context, nodes: Path | None, pods: Sequence[Path], protocol: str, priorities: str
) -> None:
    def given(name: str) -> bool:
        return ctx.get_parameter_source(name) is not ParameterSource.DEFAULT

    if (nodes is None) != (not pods):
        raise click.UsageError("--nodes and --pods come together; give both, or neither for made-up ones")
    if len({path.stem for path in pods}) < len(pods):
        raise click.UsageError("--pods: two files have the same name, by which their results are known")
    if priorities != "none" and protocol != "churn":
        raise click.UsageError("--priorities: no pod is evicted in inflation; take --protocol churn")
    if given("lifetimes") and protocol != "churn":
        raise click.UsageError("--lifetimes: no pod leaves in inflation; take --protocol churn")
    for name in ("generate", "generator_seed", "write"):
        if nodes is not None and given(name):
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(
                f"{option}: the nodes and pods of --nodes and --pods are files already; drop it"
            )


def _report_missing_models(nodes: Sequence[NodeShape], traces: Traces) -> None:
    """A note: the user may simulate a part of a cluster, or may have misspelt a model."""
    models = {model_of(node.model) for node in nodes if node.gpus}
    for name, pods in traces.items():
        known = {
            wishes: any(admits(wishes, model) for model in models)
            for wishes in {pod.kind.models for pod in pods if pod.kind.models}
        }
        lost = [pod.kind.models for pod in pods if not known.get(pod.kind.models, True)]
        if lost:
            wanted = " or ".join(lost[0])[:_SHOWN_CHARACTERS]
            note = f"note: {name}: no node has a model that {len(lost)} pods ask for, such as {wanted};"
            show(f"{note} they count as rejected", err=True)
