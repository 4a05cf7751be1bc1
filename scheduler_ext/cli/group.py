"""A group of commands, and how errors leave it."""

from __future__ import annotations

from typing import Any

import click

from scheduler_ext.core.errors import SchedulerExtError


class CommandGroup(click.Group):
    """Errors meant for the user leave as one line on stderr and exit 1; anything else is a bug and shows."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SchedulerExtError as error:
            raise click.ClickException(str(error)) from error
