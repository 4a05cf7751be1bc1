"""The command group, and how errors leave it."""

from __future__ import annotations

from typing import Any

import click

from scheduler_ext import __version__
from scheduler_ext.cli.lazy_commands import LazyCommands
from scheduler_ext.core.errors import SchedulerExtError

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
    "demo",
)


class _Group(click.Group):
    """Errors meant for the user leave as one line on stderr and exit 1; anything else is a bug and shows."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SchedulerExtError as error:
            raise click.ClickException(str(error)) from error


@click.group(
    cls=_Group,
    # An agent on every node need not hold the extender in memory. click only reads them.
    commands=LazyCommands("scheduler_ext.cli", _NAMES),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="scheduler-ext")
def main() -> None:
    """GPU-aware scheduler extender for kube-scheduler."""
