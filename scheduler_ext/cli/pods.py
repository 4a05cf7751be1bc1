"""``scheduler-ext pods``: the pods of a live cluster that hold GPUs or wait for them."""

from functools import partial
from typing import Any

import click

from scheduler_ext.cli.answers import Live, live_options
from scheduler_ext.cli.options import all_namespaces_option, namespace_option
from scheduler_ext.cli.output import print_output, print_table


@click.command()
@namespace_option
@all_namespaces_option
@live_options
def pods(namespace: str | None, all_namespaces: bool, live: Live, output: str) -> None:
    """List the pods that hold GPUs or wait for them.

    Shows the GPUs of each pod, or the reason why it waits.
    """
    only = None if all_namespaces else live.namespace(namespace)
    listing = live.answers().pods()
    items = [item for item in listing["items"] if only is None or item["namespace"] == only]
    names = (item["name"] for item in items)
    print_output(output, {**listing, "items": items}, "pod", names, partial(_print, only))


def _print(only: str | None, listing: dict[str, Any], *, wide: bool) -> None:
    items = listing["items"]
    if not items:
        click.echo("No pods with GPUs" + (f" in namespace {only}" if only is not None else ""), err=True)
        return
    header = ["NAME", "STATE", "NODE", "PRIORITY", "ASKS", "GPUS", "REASON"]
    rows = [
        [
            item["name"],
            item["state"],
            item["node"] or "-",
            item["priority"],
            item["asks"],
            ",".join(device["uuid"] for device in item["devices"]) or "-",
            item["reason"] or "",
        ]
        for item in items
    ]
    if wide:
        header += ["NEAREST", "MOST NODES"]
        rows = [
            [*row, item["nearest"] or "", _commonest(item["commonest"])]
            for row, item in zip(rows, items, strict=True)
        ]
    if only is None:
        header.insert(0, "NAMESPACE")
        rows = [[item["namespace"], *row] for row, item in zip(rows, items, strict=True)]
    print_table(header, rows, wide=wide)


def _commonest(commonest: dict[str, Any] | None) -> str:
    return f"{commonest['nodes']} of {commonest['of']}: {commonest['reason']}" if commonest else ""
