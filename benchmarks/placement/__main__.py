"""The command: `python -m benchmarks.placement` (`__init__.py` explains the measurement)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from benchmarks.placement.inputs import made_up, read_folder
from benchmarks.placement.table import HEADER, cells_of, rows_of
from benchmarks.published_placement import POLICIES, SEEDS, TIES
from scheduler_ext.cli.output import print_table
from scheduler_ext.core.errors import SimulationError
from scheduler_ext.machine import describe_machine, machine_line
from scheduler_ext.sim.commands.options import SEEDS as SEED_RANGES
from scheduler_ext.sim.commands.options import TARGET, names_of, run_tasks, sweep_options
from scheduler_ext.sim.commands.results import check_file, check_plots, print_refused, report_text, write_text
from scheduler_ext.sim.experiment import Experiment
from scheduler_ext.sim.placement_policy import PUBLISHED_TIES
from scheduler_ext.sim.plots import write_plots
from scheduler_ext.sim.policies import POLICIES as KNOWN
from scheduler_ext.sim.protocols import run_inflation
from scheduler_ext.sim.scheduler import TIES as TIE_RULES
from scheduler_ext.sim.scheduler import Settings

_target = click.Path(path_type=Path)
_folder = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.option("--traces", type=_folder, help="Folder of the openb CSVs (default: generated pods).")
@click.option("--variants", metavar="NAME,...", help="Only these of the folder's traces.")
@click.option(
    "--policy",
    "policies",
    type=names_of(KNOWN),
    # Those with published figures, then all others.
    default=",".join(dict.fromkeys(("default", *POLICIES, *KNOWN))),
    show_default=True,
)
@click.option("--seeds", type=SEED_RANGES, default=f"{SEEDS[0]}-{SEEDS[-1]}", show_default=True)
@click.option("--ties", type=click.Choice(TIE_RULES), default=TIES, show_default=True)
@click.option("--points", is_flag=True, help="Map every policy's scores to an extender's 0 to 10.")
@click.option("--target", type=TARGET, default="trace", show_default=True)
@sweep_options(jobs=-1)
@click.option("--json", "json_file", type=_target, help="Write the SimulationReport here.")
@click.option("--csv", "csv_file", type=_target, help="Write a line per run here.")
@click.option("--png", "png_folder", type=_target, help="Write the plots of each trace into this folder.")
def main(
    traces: Path | None,
    variants: str | None,
    policies: tuple[str, ...],
    seeds: tuple[int, ...],
    ties: str,
    points: bool,
    target: str,
    jobs: int,
    backend: str,
    scheduler: str | None,
    json_file: Path | None,
    csv_file: Path | None,
    png_folder: Path | None,
) -> None:
    """Run the inflation protocol of the published comparison, and print our results beside the published
    figures.
    """
    if variants is not None and traces is None:
        raise click.UsageError("--variants: names traces of a folder; add --traces FOLDER")
    try:
        check_file("--json", json_file)
        check_file("--csv", csv_file)
        check_plots("--png", png_folder)
        inputs = made_up() if traces is None else read_folder(traces, variants)
        settings = Settings(ties=ties, points=points)
        tasks = [
            partial(
                run_inflation,
                Experiment(
                    trace=name,
                    nodes=trace.nodes,
                    pods=trace.pods,
                    policy=policy,
                    seed=seed,
                    target=target,
                    settings=settings,
                ),
            )
            for name, trace in inputs.items()
            for policy in policies
            for seed in seeds
        ]
        outcomes = run_tasks(tasks, jobs=jobs, backend=backend, scheduler=scheduler)
        runs = [outcome.run for outcome in outcomes]
        as_published = ties in (TIES, PUBLISHED_TIES) and target == "trace" and not points
        print_table(HEADER, [cells_of(row) for row in rows_of(runs, as_published=as_published)], wide=True)
        print_refused(runs)
        click.echo(machine_line(describe_machine()))
        if json_file is not None:
            write_text("--json", json_file, report_text(runs, "json"))
        if csv_file is not None:
            write_text("--csv", csv_file, report_text(runs, "csv"))
        if png_folder is not None:
            write_plots(png_folder, outcomes)
    except SimulationError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.placement")
