"""The command ``scheduler-ext``."""

from __future__ import annotations

import click

from scheduler_ext import __version__
from scheduler_ext.cli.group import CommandGroup
from scheduler_ext.cli.lazy_commands import LazyCommands

_NAMES = (
    "serve",
    "agent",
    "why",
    "nodes",
    "node",
    "pods",
    "inventory",
    "explain",
    "capacity",
    "simulate",
    "replay",
    "reasons",
    "check-config",
    "completion",
    "demo",
)


@click.group(
    cls=CommandGroup,
    # An agent on every node need not hold the extender in memory. click only reads them.
    commands=LazyCommands("scheduler_ext.cli", _NAMES),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="scheduler-ext")
def main() -> None:
    """GPU-aware scheduler extender for kube-scheduler."""
