"""``scheduler-ext simulate``: what would happen, without any of it happening."""

from __future__ import annotations

import click

from scheduler_ext.cli.group import CommandGroup
from scheduler_ext.cli.lazy_commands import LazyCommands

_NAMES = ("trace", "mig", "cluster")


@click.group(cls=CommandGroup, commands=LazyCommands(__name__, _NAMES))
def simulate() -> None:
    """Simulate the placement of many pods."""
