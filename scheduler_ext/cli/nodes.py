"""``scheduler-ext nodes``: the GPU nodes of a live cluster."""

from __future__ import annotations

import click

from scheduler_ext.cli.answers import Live, live_options
from scheduler_ext.cli.inventory import print_listing
from scheduler_ext.cli.options import without_namespace_options


@click.command()
@without_namespace_options
@live_options
def nodes(live: Live, output: str) -> None:
    """List the nodes with GPUs, free memory and MIG instances.

    -o wide lists every GPU.
    """
    print_listing(live.answers().inventory(), output)
