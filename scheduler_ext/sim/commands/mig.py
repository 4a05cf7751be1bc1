"""`scheduler-ext simulate mig`: the MIG slices that each placement policy accepts."""

from collections.abc import Sequence
from functools import partial

import click

from scheduler_ext.sim.commands.options import FiniteFloat, Sweep, policy_option, report_options, seeds_option
from scheduler_ext.sim.mig.mig_churn_run import ARRIVALS, TARGETS, MigChurn, run_mig_churn
from scheduler_ext.sim.mig.mig_inputs import parse_mix, read_geometry
from scheduler_ext.sim.mig.mig_policies import MIG_POLICIES


@click.command()
@click.option("--gpus", type=click.IntRange(1, 100_000), default=100, help="Number of GPUs.")
@click.option(
    "--gpus-per-node", type=click.IntRange(1, 64), default=8, help="Number of GPUs of a node, for --sample."
)
@click.option(
    "--sample",
    type=click.IntRange(0, 100),
    default=100,
    help="Percentage of nodes that kube-scheduler examines; 0: its default.",
)
@click.option(
    "--geometry",
    "geometry_name",
    default="A100-80GB",
    metavar="NAME|FILE",
    help='GPU name or JSON file: {"grid":8,"profiles":[{"name","size","starts":[],"maxInstances":7}]}.',
)
@click.option(
    "--mix",
    "mix_text",
    default="uniform",
    metavar="PROFILE=PART,...",
    help="Requested profiles in relative parts, or uniform, skew-small, skew-big, bimodal.",
)
@click.option(
    "--load",
    type=FiniteFloat(0, 100, min_open=True),
    default=1.0,
    help="Mean slices in use if every pod were accepted, as a fraction of all slices.",
)
@policy_option(MIG_POLICIES)
@seeds_option
@click.option(
    "--arrivals",
    type=click.IntRange(1, 100_000_000),
    default=ARRIVALS,
    help="Measured pods, after the warm-up.",
)
@click.option(
    "--target",
    type=click.Choice(TARGETS),
    default="mix",
    help="The policies' knowledge of demand: the mix, or only the pods that have arrived.",
)
@report_options
def mig(
    gpus: int,
    gpus_per_node: int,
    sample: int,
    geometry_name: str,
    mix_text: str,
    load: float,
    policies: Sequence[str],
    seeds: Sequence[int],
    arrivals: int,
    target: str,
    sweep: Sweep,
) -> None:
    """Simulate MIG pods that arrive and leave on identical GPUs.

    Pods arrive at random (Poisson). Prints the slices that each policy accepts.
    """
    sweep.check()
    geometry = read_geometry(geometry_name)
    churn = MigChurn(
        geometry=geometry,
        mix=parse_mix(mix_text, geometry),
        trace=mix_text,
        gpus=gpus,
        gpus_per_node=gpus_per_node,
        sampled_percent=sample,
        load=load,
        arrivals=arrivals,
        target=target,
    )
    tasks = [partial(run_mig_churn, churn, name, seed) for name in policies for seed in seeds]
    sweep.write(sweep.results(tasks))
