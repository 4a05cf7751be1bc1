"""``scheduler-ext nodes``: which nodes have GPUs, and what is free there?"""

from __future__ import annotations

import click

from scheduler_ext.cli.inventory import print_inventory
from scheduler_ext.cli.live_options import Live, live_options, without_namespace_options
from scheduler_ext.cli.options import output_option
from scheduler_ext.cli.output import print_names, print_structured


@click.command()
@without_namespace_options
@live_options
@output_option
def nodes(
    live: Live,
    output: str,
) -> None:
    """List the nodes with GPUs, free memory and MIG instances.

    -o wide lists every GPU.
    """
    listing = live.answers().inventory()
    if output in ("json", "yaml"):
        print_structured(listing, output)
    elif output == "name":
        print_names("node", (item["node"] for item in listing["items"]))
    else:
        print_inventory(listing, wide=output == "wide")
