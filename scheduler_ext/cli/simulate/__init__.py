"""``scheduler-ext simulate``: placements that change nothing."""

import click

from scheduler_ext.cli.group import CommandGroup, LazyCommands

_NAMES = ("trace", "mig", "cluster")


@click.group(cls=CommandGroup, commands=LazyCommands(__name__, _NAMES))
def simulate() -> None:
    """Simulate the placement of many pods."""
