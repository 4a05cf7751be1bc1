"""``scheduler-ext capacity``: the number of further pods like this one that fit."""

from typing import Any

import click

from scheduler_ext.cli.explain import WOULD_NOT_FIT, asking, shortfall
from scheduler_ext.cli.inputs import OnePod, one_pod_options
from scheduler_ext.cli.options import output_option
from scheduler_ext.cli.output import Columns, not_modelled, print_items, print_notes, print_output, printable
from scheduler_ext.whatif.capacity import capacity as capacity_of

# Nodes without room in the table; a large cluster has many, all alike.
_SHOWN_EMPTY = 10


@click.command()
@one_pod_options
@output_option
@click.pass_context
def capacity(ctx: click.Context, asked: OnePod, output: str) -> None:
    """Count how many more pods like this one fit.

    Shows the count for each node and the reason that blocks the next pod. Exit 0 if at least one pod fits, 3
    if none fits.
    """
    answer = asked.answer(capacity_of)
    names = (node["node"] for node in answer["nodes"] if node["count"] != 0)
    print_output(output, answer, "node", names, _print)
    ctx.exit(WOULD_NOT_FIT if answer["total"] == 0 else 0)


def _print(answer: dict[str, Any], *, wide: bool) -> None:
    click.echo(printable(asking(answer)))
    print_notes([*answer["warnings"], *not_modelled(answer["notModelled"])])
    total = "no limit is known" if answer["total"] is None else answer["total"]
    click.echo(f"Additional pods that fit: {total}")
    following = answer["next"]
    if following["reason"] is not None:
        where = f" on {following['node']}" if following["node"] else ""
        miss = f" ({shortfall(following['nearestMiss'])})" if following["nearestMiss"] is not None else ""
        click.echo(printable(f"Next pod blocked by: {following['reason']}{where}{miss}"))
    click.echo()
    nodes = answer["nodes"]
    empty = [node for node in nodes if node["count"] == 0]
    shown = nodes if wide else [node for node in nodes if node["count"] != 0] + empty[:_SHOWN_EMPTY]
    columns: Columns = {
        "NODE": "node",
        "COUNT": lambda node: "no limit" if node["count"] is None else node["count"],
        "LIMIT": "limit",
    }
    print_items(columns, shown, wide=wide)
    if len(shown) < len(nodes):
        click.echo(f"and {len(nodes) - len(shown)} nodes that take none; -o wide shows them")
