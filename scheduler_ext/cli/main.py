"""The command group, and how errors leave it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import click

from scheduler_ext import __version__
from scheduler_ext.core.errors import SchedulerExtError

_NAMES = (
    "serve",
    "agent",
    "inventory",
    "explain",
    "capacity",
    "simulate",
    "reasons",
    "check-config",
    "demo",
)


class _Commands(Mapping[str, click.Command]):
    """Each imported when it is asked for: an agent on every node need not hold the extender in memory."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in _NAMES:
            raise KeyError(name)
        module = name.replace("-", "_")
        command: click.Command = getattr(import_module(f"scheduler_ext.cli.{module}"), module)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


class _Group(click.Group):
    """Errors meant for the user leave as one line on stderr and exit 1; anything else is a bug and shows."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SchedulerExtError as error:
            raise click.ClickException(str(error)) from error


@click.group(
    cls=_Group,
    # click only reads it.
    commands=_Commands(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="scheduler-ext")
def main() -> None:
    """GPU-aware scheduler extender for kube-scheduler."""
