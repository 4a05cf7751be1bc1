"""`scheduler-ext simulate`: placements that change nothing."""

import click

from scheduler_ext.cli.group import CommandGroup, LazyCommands
from scheduler_ext.feature import Command

_COMMANDS = (
    Command("trace", "scheduler_ext.sim.commands.trace", "Compare placement policies on a trace of pods."),
    Command(
        "mig", "scheduler_ext.sim.commands.mig", "Simulate MIG pods that arrive and leave on identical GPUs."
    ),
    Command("cluster", "scheduler_ext.sim.commands.cluster", "Place pods on a cluster, one after the other."),
)


@click.group(cls=CommandGroup, commands=LazyCommands({"Commands": _COMMANDS}))
def simulate() -> None:
    """Simulate the placement of many pods."""
