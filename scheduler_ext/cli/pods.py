"""``scheduler-ext pods``: which pods have GPUs, and which wait for some?"""

from __future__ import annotations

from typing import Any

import click

from scheduler_ext.cli.live_options import (
    Live,
    all_namespaces_option,
    live_options,
)
from scheduler_ext.cli.options import namespace_option, output_option
from scheduler_ext.cli.output import print_names, print_structured, print_table


@click.command()
@namespace_option
@all_namespaces_option
@live_options
@output_option
def pods(
    namespace: str | None,
    all_namespaces: bool,
    live: Live,
    output: str,
) -> None:
    """List the pods that hold GPUs or wait for them.

    Shows the GPUs of each pod, or the reason why it waits.
    """
    only = None if all_namespaces else live.namespace(namespace)
    listing = live.answers().pods()
    items = [item for item in listing["items"] if only is None or item["namespace"] == only]
    if output in ("json", "yaml"):
        print_structured({**listing, "items": items}, output)
    elif output == "name":
        print_names("pod", (item["name"] for item in items))
    elif not items:
        click.echo("No pods with GPUs" + (f" in namespace {only}" if only is not None else ""), err=True)
    else:
        _print(items, with_namespace=only is None, wide=output == "wide")


def _print(items: list[dict[str, Any]], *, with_namespace: bool, wide: bool) -> None:
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
    if with_namespace:
        header.insert(0, "NAMESPACE")
        rows = [[item["namespace"], *row] for row, item in zip(rows, items, strict=True)]
    print_table(header, rows, wide=wide)


def _commonest(commonest: dict[str, Any] | None) -> str:
    return f"{commonest['nodes']} of {commonest['of']}: {commonest['reason']}" if commonest else ""
