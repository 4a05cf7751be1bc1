"""The command: `python -m benchmarks.scheduler` (`__init__.py` explains the comparison)."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import click

from benchmarks.cluster import GPUS_PER_NODE
from benchmarks.processes import ProcessError
from benchmarks.scheduler.block import Block
from benchmarks.scheduler.contenders import CONTENDERS, Contender
from benchmarks.scheduler.nodes import MAX_IDLE_NODES
from benchmarks.scheduler.nodes import gpus as gpus_of
from benchmarks.scheduler.plot import write_plot
from benchmarks.scheduler.report import bound_lines, ratio_table, scheduler_report, scheduler_table
from benchmarks.scheduler.suite import Settings, measure
from benchmarks.scheduler.summary import ratios_of, rows_of
from scheduler_ext.machine import describe_machine, machine_line
from tests.e2e.cluster.api import ApiError
from tests.e2e.cluster.binaries import Binaries, BinariesError, find_binaries
from tests.e2e.cluster.child import ChildError
from tests.e2e.cluster.control_plane import running_control_plane

_LEGEND = (
    "times in ms per pod, by kube-scheduler's own metrics; PLUGINS: its own filters and scores; "
    "EXTENDER: what ours says of itself; BATCHED: pods placed by the scores of an earlier equal pod"
)
# Enough for caches, connections and the first garbage collections; a quarter of a small number of pods.
_WARM_UP = 20


def _sizes(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    """A click callback: cluster sizes separated by commas, put in ascending order."""
    try:
        sizes = tuple(sorted({int(part) for part in value.split(",")}))
    except ValueError:
        raise click.BadParameter(f"{value!r} must be whole numbers separated by commas") from None
    if sizes[0] < 1 or sizes[-1] > MAX_IDLE_NODES:
        raise click.BadParameter(f"{value!r} must lie between 1 and {MAX_IDLE_NODES}")
    return sizes


def _contenders(ctx: click.Context, param: click.Parameter, value: str) -> tuple[Contender, ...]:
    """A click callback: names of contenders separated by commas."""
    names = tuple(dict.fromkeys(value.split(",")))
    if not set(names) <= CONTENDERS.keys():
        raise click.BadParameter(f"{value!r} must be some of {','.join(CONTENDERS)}")
    return tuple(CONTENDERS[name] for name in names)


@click.command()
@click.option("--nodes", callback=_sizes, metavar="N,N,...", default="100,1000,5000", show_default=True)
@click.option(
    "--pods", type=click.IntRange(1), default=300, show_default=True, help="Measured per contender and round."
)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option(
    "--contenders", callback=_contenders, metavar="NAME,...", default=",".join(CONTENDERS), show_default=True
)
@click.option(
    "--asks",
    type=click.Choice(["alike", "different"]),
    default="alike",
    show_default=True,
    help="Pods that are equal except for their names, or no two that ask the same.",
)
@click.option(
    "--gpus",
    type=click.IntRange(1, GPUS_PER_NODE),
    default=1,
    show_default=True,
    help="Per pod; with 8, each pod fills its node.",
)
@click.option("--seed", type=int, default=42, show_default=True)
@click.option(
    "--smoke", is_flag=True, help="Does it run? 50 nodes, 200 pods, 1 round; its figures mean nothing."
)
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the report here."
)
@click.option(
    "--png", "png_file", type=click.Path(dir_okay=False, path_type=Path), help="Draw the report here."
)
def main(
    nodes: Sequence[int],
    pods: int,
    rounds: int,
    contenders: Sequence[Contender],
    asks: str,
    gpus: int,
    seed: int,
    smoke: bool,
    json_file: Path | None,
    png_file: Path | None,
) -> None:
    """Measure a real kube-scheduler with and without extenders; exit 1 on errors, never on slowness."""
    if smoke:
        nodes, pods, rounds = (50,), 200, 1
    warm_up = min(_WARM_UP, 1 + pods // 4)
    settings = Settings(
        nodes,
        pods,
        warm_up,
        rounds,
        contenders,
        seed,
        asks == "alike",
        gpus,
        note=_note,
    )
    room = gpus_of(nodes[0])
    if settings.queue * gpus > room:
        raise click.UsageError(
            f"--pods {pods} and {settings.warm_up} more to warm up do not fit on the {room} GPUs of "
            f"{nodes[0]} nodes with --gpus {gpus}: ask fewer pods or more nodes"
        )
    # Check before minutes of measuring, not after.
    for file in (json_file, png_file):
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, _interrupted)
    machine = describe_machine()
    try:
        binaries = find_binaries()
        scheduler = _version(binaries)
        _note(f"{scheduler}; about {max(1, round(settings.expected_s() / 60))} min")
        blocks = _measure(settings, binaries)
    except (BinariesError, ChildError, ProcessError, ApiError, OSError) as error:
        raise click.ClickException(str(error)) from error
    rows, ratios = rows_of(blocks), ratios_of(blocks)
    told = f"{scheduler}, pods {asks} with {gpus} GPU, {machine_line(machine)}"
    click.echo("\n\n".join((told, scheduler_table(rows), _LEGEND, ratio_table(ratios))))
    for line in bound_lines(ratios):
        click.echo(line)
    if json_file:
        command = shlex.join(["python", "-m", "benchmarks.scheduler", *sys.argv[1:]])
        report = scheduler_report(machine, scheduler, command, blocks)
        json_file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if png_file:
        write_plot(png_file, rows, told)
    errors = sum(row.errors for row in rows)
    if errors:
        raise click.ClickException(f"{errors} errors; what they were stands above, below their blocks")


def _measure(settings: Settings, binaries: Binaries) -> list[Block]:
    with tempfile.TemporaryDirectory(prefix="scheduler-benchmark-") as folder:
        own, control_plane = Path(folder, "benchmark"), Path(folder, "control-plane")
        own.mkdir()
        control_plane.mkdir()
        with running_control_plane(binaries, control_plane) as plane:
            return measure(settings, plane, own)


def _version(binaries: Binaries) -> str:
    """kube-scheduler's own version, such as "Kubernetes v1.36.2"."""
    done = subprocess.run(
        [binaries.kube_scheduler, "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    return f"kube-scheduler of {done.stdout.strip() or 'unknown version'}"


def _note(text: str) -> None:
    """Progress goes to stderr, because stdout is for the tables."""
    click.echo(text, err=True)


def _interrupted(signum: int, frame: FrameType | None) -> None:
    """SIGTERM takes the same path as Ctrl-C, so that the children are stopped."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
