"""``scheduler-ext capacity``: how many more of this pod fit, and what limits the next one?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scheduler_ext.cli.explain import WOULD_NOT_FIT, asking, shortfall
from scheduler_ext.cli.inputs import read_config, source_of
from scheduler_ext.cli.options import one_pod_options
from scheduler_ext.cli.output import print_names, print_structured, print_table, printable
from scheduler_ext.cli.pod_files import read_pod
from scheduler_ext.core.errors import InventoryError, PodError
from scheduler_ext.whatif.capacity import capacity as capacity_of

# The table shows so many nodes that take none; they are many in a large cluster, and all alike.
_SHOWN_EMPTY = 10


@click.command()
@one_pod_options
@click.pass_context
def capacity(
    ctx: click.Context,
    filename: Path,
    pod_name: str | None,
    namespace: str | None,
    inventory_file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    config_file: Path | None,
    output: str,
) -> None:
    """Count how many more pods like this one fit.

    Shows the count of each node, and what blocks the next pod. Exit 0 if at least one fits, 3 if none fits.
    """
    config = read_config(config_file)
    source = source_of(inventory_file, kubeconfig, context)
    given = read_pod(filename, source.namespace(namespace), only=namespace is not None, name=pod_name)
    state = source.state(config, with_objects=True)
    try:
        answer = capacity_of(given.pod, state, config)
    except PodError as error:
        raise PodError(f"{filename}: {error}") from None
    except InventoryError as error:
        raise InventoryError(f"{state.source}: {error}") from None
    answer["warnings"][:0] = given.notes()
    if output in ("json", "yaml"):
        print_structured(answer, output)
    elif output == "name":
        print_names("node", (node["node"] for node in answer["nodes"] if node["count"] != 0))
    else:
        _print(answer, wide=output == "wide")
    ctx.exit(WOULD_NOT_FIT if answer["total"] == 0 else 0)


def _print(answer: dict[str, Any], *, wide: bool) -> None:
    click.echo(printable(asking(answer)))
    for warning in answer["warnings"]:
        click.echo(printable(f"Note: {warning}"))
    for feature in answer["notModelled"]:
        click.echo(f"Note: not modelled here, kube-scheduler may decide otherwise: {feature}")
    total = "no limit is known" if answer["total"] is None else answer["total"]
    click.echo(f"More of it that fit: {total}")
    following = answer["next"]
    if following["reason"] is not None:
        where = f" on {following['node']}" if following["node"] else ""
        miss = _numbers(following["nearestMiss"])
        click.echo(printable(f"The next one: {following['reason']}{where}{miss}"))
    click.echo()
    nodes = answer["nodes"]
    empty = [node for node in nodes if node["count"] == 0]
    shown = nodes if wide else [node for node in nodes if node["count"] != 0] + empty[:_SHOWN_EMPTY]
    rows = [
        (node["node"], "no limit" if node["count"] is None else node["count"], node["limit"])
        for node in shown
    ]
    print_table(("NODE", "COUNT", "LIMIT"), rows, wide=wide)
    if len(shown) < len(nodes):
        click.echo(f"and {len(nodes) - len(shown)} nodes that take none; -o wide shows them")


def _numbers(miss: dict[str, Any] | None) -> str:
    return f" ({shortfall(miss)})" if miss is not None else ""
