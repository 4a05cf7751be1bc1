"""`scheduler-ext simulate`: placements that change nothing."""

import click

from scheduler_ext.cli.group import CommandGroup, LazyCommands


@click.group(cls=CommandGroup, commands=LazyCommands(__name__, ("trace", "mig", "cluster")))
def simulate() -> None:
    """Simulate the placement of many pods."""
