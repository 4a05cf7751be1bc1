"""``scheduler-ext pods``: the pods of a live cluster that hold GPUs or wait for them."""

from functools import partial
from typing import Any

import click

from scheduler_ext.cli.answers import Live, live_options
from scheduler_ext.cli.options import all_namespaces_option, namespace_option
from scheduler_ext.cli.output import Columns, print_items, print_output

_COLUMNS: Columns = {
    "NAME": "name",
    "STATE": "state",
    "NODE": lambda item: item["node"] or "-",
    "PRIORITY": "priority",
    "ASKS": "asks",
    "GPUS": lambda item: ",".join(device["uuid"] for device in item["devices"]) or "-",
    "REASON": "reason",
}
_WIDE: Columns = {
    "NEAREST": "nearest",
    "MOST NODES": lambda item: (
        "{nodes} of {of}: {reason}".format_map(item["commonest"]) if item["commonest"] else ""
    ),
}


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
    print_items(
        ({"NAMESPACE": "namespace"} if only is None else {}) | _COLUMNS | (_WIDE if wide else {}),
        items,
        wide=wide,
    )
