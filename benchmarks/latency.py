"""Latency of filter and prioritize at the wire, beside a server that only reads the body.

`python -m benchmarks.latency` starts the real server on a generated inventory for each kind of pod and
cluster size, loads it from a process of its own and prints p50, p90, p99 and the ratio to the no-op server;
the ratio is the figure that holds on another or a busy machine. `--url` loads any extender instead, whose
answers then only need to be readable.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import click

from benchmarks.client import VERBS, Plan
from benchmarks.cluster import KINDS, MAX_NODES
from benchmarks.inventory import write_inventory
from benchmarks.plots import write_plot
from benchmarks.processes import ProcessError, extender_command, measure, noop_command, running_server
from benchmarks.report import GrowthPoint, Row, growth_table, latency_report, latency_table, row_of
from scheduler_ext.machine import describe_machine, machine_line

# The growth measurement: names vary at few states, then states vary at one number of names.
GROWTH_STATES = 64
GROWTH_NAMES = 5000
GROWTH_STATE_COUNTS = (4, 64, 512, None)


@dataclass(frozen=True, slots=True)
class Settings:
    """The measurement's settings; with `url` None, a server per inventory is started with `serve`."""

    nodes: Sequence[int]
    kinds: Sequence[str]
    connections: Sequence[int]
    rounds: int
    seed: int
    url: str | None = None
    distinct_states: int | None = None
    serve: Callable[[Path], list[str]] = extender_command
    note: Callable[[str], None] = print


def measure_rows(settings: Settings, noop_url: str) -> list[Row]:
    """Every verb for every kind, cluster size and number of connections."""
    rows = []
    for kind in settings.kinds:
        for nodes in settings.nodes:
            with _extender(settings, kind, nodes, settings.distinct_states) as (url, _):
                for connections in settings.connections:
                    rows += _measure(settings, url, noop_url, kind, nodes, connections, VERBS)
    return rows


def measure_growth(settings: Settings, noop_url: str) -> list[GrowthPoint]:
    """Filter on one connection: by names at GROWTH_STATES states, by states at GROWTH_NAMES names.

    Neither axis goes beyond the largest of `settings.nodes`, so that a quick run stays quick.
    """
    largest = max(settings.nodes)
    by_names = [("names", nodes, GROWTH_STATES) for nodes in settings.nodes]
    names = min(GROWTH_NAMES, largest)
    counts = [count for count in GROWTH_STATE_COUNTS if count is None or count < names]
    by_states = [("states", names, count) for count in counts]
    points: list[GrowthPoint] = []
    for kind in settings.kinds:
        for axis, nodes, states in (*by_names, *by_states):
            with _extender(settings, kind, nodes, states) as (url, distinct_states):
                rows = _measure(settings, url, noop_url, kind, nodes, 1, ("filter",))
                points += [GrowthPoint(axis, distinct_states, row) for row in rows]
    return points


@contextlib.contextmanager
def _extender(settings: Settings, kind: str, nodes: int, states: int | None) -> Iterator[tuple[str, int]]:
    """The extender's URL and the number of different GPU states of its nodes (0 for a foreign inventory)."""
    if settings.url is not None:
        yield settings.url, 0
        return
    with tempfile.TemporaryDirectory(prefix="latency-") as folder:
        inventory = Path(folder) / "inventory.json"
        distinct_states = write_inventory(inventory, kind, nodes, settings.seed, states)
        with running_server(settings.serve(inventory), "api") as url:
            yield url, distinct_states


def _measure(
    settings: Settings,
    url: str,
    noop_url: str,
    kind: str,
    nodes: int,
    connections: int,
    verbs: tuple[str, ...],
) -> list[Row]:
    plan = Plan(
        url=url,
        noop_url=noop_url,
        kind=kind,
        nodes=nodes,
        connections=connections,
        rounds=settings.rounds,
        seed=settings.seed,
        strict=settings.url is None,
        verbs=verbs,
    )
    rows = []
    for measurement in measure(plan):
        row = row_of(measurement, kind, nodes, connections)
        settings.note(
            f"{row.verb:<10} {kind:<5} nodes={nodes} connections={connections} p50={row.p50_us}us "
            f"noop={row.noop_p50_us}us ratio={row.ratio} errors={row.errors}"
        )
        for message in measurement.messages:
            settings.note(f"  {message}")
        rows.append(row)
    return rows


def _numbers(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    """A click callback: whole numbers separated by commas."""
    try:
        numbers = tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} must be whole numbers separated by commas") from None
    if min(numbers) < 1 or max(numbers) > MAX_NODES:
        raise click.BadParameter(f"{value!r} must lie between 1 and {MAX_NODES}")
    return numbers


def _kinds(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    """A click callback: kinds of pods separated by commas."""
    kinds = tuple(value.split(","))
    if not set(kinds) <= set(KINDS):
        raise click.BadParameter(f"{value!r} must be some of {','.join(KINDS)}")
    return kinds


@click.command()
@click.option("--url", help="Load this extender (http://HOST:PORT[/PREFIX]) instead of starting the product.")
@click.option("--noop-url", help="Compare with this URL instead of starting the no-op server.")
@click.option(
    "--nodes", callback=_numbers, metavar="N,N,...", default="100,500,1000,5000,20000", show_default=True
)
@click.option("--kinds", callback=_kinds, metavar="KIND,...", default=",".join(KINDS), show_default=True)
@click.option("--connections", callback=_numbers, metavar="N,N,...", default="1,8", show_default=True)
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Rotations of the 12 request shapes.",
)
@click.option("--seed", type=int, default=42, show_default=True)
@click.option(
    "--distinct-states", type=click.IntRange(4), help="Bound the different GPU states; default: as in life."
)
@click.option(
    "--growth/--no-growth", default=True, show_default=True, help="Also measure what filter grows with."
)
@click.option("--smoke", is_flag=True, help="Seconds instead of minutes: 100 nodes, 1 round, no growth.")
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the report here."
)
@click.option(
    "--png", "png_file", type=click.Path(dir_okay=False, path_type=Path), help="Draw the report here."
)
def main(
    url: str | None,
    noop_url: str | None,
    nodes: Sequence[int],
    kinds: Sequence[str],
    connections: Sequence[int],
    rounds: int,
    seed: int,
    distinct_states: int | None,
    growth: bool,
    smoke: bool,
    json_file: Path | None,
    png_file: Path | None,
) -> None:
    """Measure filter and prioritize beside a no-op; exit 1 on wrong answers, never on slow ones."""
    if smoke:
        nodes, rounds, growth = (100,), 1, False
    settings = Settings(nodes, kinds, connections, rounds, seed, url, distinct_states, note=_note)
    signal.signal(signal.SIGTERM, _interrupted)
    machine = describe_machine()
    # Check before minutes of measuring, not after.
    for file in (json_file, png_file):
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with contextlib.ExitStack() as stack:
            if noop_url is None:
                noop_url = stack.enter_context(running_server(noop_command(), "api"))
            rows = measure_rows(settings, noop_url)
            points = measure_growth(settings, noop_url) if growth and url is None else []
    except ProcessError as error:
        raise click.ClickException(str(error)) from error
    click.echo(machine_line(machine))
    click.echo(latency_table(rows))
    if points:
        click.echo(growth_table(points))
    if json_file:
        report = latency_report(
            machine, shlex.join(["python", "-m", "benchmarks.latency", *sys.argv[1:]]), rows, points
        )
        json_file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if png_file:
        write_plot(png_file, rows, points, machine_line(machine))
    errors = sum(row.errors for row in (*rows, *(point.row for point in points)))
    if errors:
        raise click.ClickException(
            f"{errors} requests failed or were answered wrongly; the first are listed above"
        )


def _note(text: str) -> None:
    """Progress goes to stderr, because stdout is for the table."""
    click.echo(text, err=True)


def _interrupted(signum: int, frame: FrameType | None) -> None:
    """SIGTERM takes the same path as Ctrl-C, so that the children are stopped."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
