"""The command `scheduler-ext`. Exit status: 0 fits, 1 error, 2 wrong usage, 3 would not fit."""

import click

from scheduler_ext import __version__
from scheduler_ext.cli.group import CLUSTER_COMMANDS, CONTEXT_SETTINGS, CommandGroup, LazyCommands

_NAMES = (
    *CLUSTER_COMMANDS,
    "serve",
    "agent",
    "inventory",
    "replay",
    "check-config",
    "autoscaler-config",
    "demo",
)


@click.group(
    cls=CommandGroup,
    # An agent runs on every node and must not hold the extender in memory. click only reads the mapping.
    commands=LazyCommands(__name__, _NAMES),
    context_settings=CONTEXT_SETTINGS,
)
@click.version_option(__version__, prog_name="scheduler-ext")
def main() -> None:
    """GPU-aware scheduler extender for kube-scheduler."""
