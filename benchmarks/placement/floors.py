"""The command: `python -m benchmarks.placement.floors`. Each floor, with its margin and whether it holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks.placement.floor_list import FLOORS, GROUPS
from benchmarks.placement.floor_runs import Plan, Runs
from benchmarks.placement.inputs import GENERATED_NODES, made_up, read_folder
from benchmarks.placement.verdicts import HEADER, Verdict, verdict_of
from benchmarks.published_placement import SEEDS
from scheduler_ext.cli.output import print_table
from scheduler_ext.core.errors import SimulationError
from scheduler_ext.machine import describe_machine, machine_line
from scheduler_ext.sim.commands.options import SEEDS as SEED_RANGES
from scheduler_ext.sim.commands.options import names_of, run_tasks, sweep_options
from scheduler_ext.sim.commands.results import check_file, write_text
from scheduler_ext.sim.mig.mig_churn_run import ARRIVALS
from scheduler_ext.sim.simulation_report import API_VERSION

_FEW_SEEDS = (42, 43, 44)
_MADE_UP_CLUSTERS = 3


@click.command()
@click.option(
    "--traces",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the openb CSVs (default: generated clusters).",
)
@click.option(
    "--generate",
    type=click.IntRange(1, 100_000),
    show_default=str(GENERATED_NODES),
    help=f"How many nodes each of the {_MADE_UP_CLUSTERS} made-up clusters has.",
)
@click.option("--seeds", type=SEED_RANGES, help="[default: 42-51; 42-44 on made-up clusters]")
@click.option(
    "--churn-seeds",
    type=SEED_RANGES,
    default=f"{_FEW_SEEDS[0]}-{_FEW_SEEDS[-1]}",
    show_default=True,
    help="Of churn of traces, whose runs are long.",
)
@click.option(
    "--only", type=names_of(GROUPS), metavar="NAME,...", help=f"{', '.join(GROUPS)} (default: all)."
)
@click.option(
    "--arrivals",
    type=click.IntRange(1, 100_000_000),
    default=ARRIVALS,
    show_default=True,
    help="MIG pods that count.",
)
@sweep_options(jobs=-1)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the verdicts here.")
@click.pass_context
def main(
    ctx: click.Context,
    traces: Path | None,
    generate: int | None,
    seeds: tuple[int, ...] | None,
    churn_seeds: tuple[int, ...],
    only: tuple[str, ...] | None,
    arrivals: int,
    jobs: int,
    backend: str,
    scheduler: str | None,
    json_file: Path | None,
) -> None:
    """Measure the promised margins of placement, and print for each floor by how much it holds or fails.

    Exit 0 if all hold, 1 if any fails.
    """
    if generate is not None and traces is not None:
        raise click.UsageError("--generate: the traces have their own cluster; give one of the two")
    floors = [floor for floor in FLOORS if only is None or floor.group in only]
    try:
        check_file("--json", json_file)
        inputs = (
            made_up(_MADE_UP_CLUSTERS, generate or GENERATED_NODES) if traces is None else read_folder(traces)
        )
        plan = Plan(inputs, seeds or (_FEW_SEEDS if traces is None else SEEDS), churn_seeds, arrivals)
        for floor in floors:
            if not plan.traces_of(floor):
                click.echo(f"not measured: {floor.what}: no trace {' or '.join(floor.traces)}", err=True)
        floors = [floor for floor in floors if plan.traces_of(floor)]
        cells = plan.cells(floors)
        tasks = [plan.task(cell) for cell in cells]
        done = run_tasks(tasks, jobs=jobs, backend=backend, scheduler=scheduler)
        runs: Runs = dict(zip(cells, done, strict=True))
        verdicts = [verdict_of(floor, plan.traces_of(floor), plan.seeds_of(floor), runs) for floor in floors]
        machine = machine_line(describe_machine())
        print_table(HEADER, [verdict.cells() for verdict in verdicts], wide=True)
        click.echo(f"{sum(verdict.holds for verdict in verdicts)} of {len(verdicts)} floors hold")
        click.echo(machine)
        if json_file is not None:
            write_text("--json", json_file, _report(verdicts, machine))
    except SimulationError as error:
        raise click.ClickException(str(error)) from None
    ctx.exit(0 if all(verdict.holds for verdict in verdicts) else 1)


def _report(verdicts: Sequence[Verdict], machine: str) -> str:
    value = {
        "apiVersion": API_VERSION,
        "kind": "PlacementFloors",
        "machine": machine,
        "floors": [verdict.as_json() for verdict in verdicts],
    }
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.placement.floors")
