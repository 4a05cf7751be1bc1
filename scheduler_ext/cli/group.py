"""A group of commands, and how errors leave it."""

from __future__ import annotations

import errno
import os
import sys
from inspect import cleandoc
from typing import Any

import click

from scheduler_ext.cli.output import printable
from scheduler_ext.core.errors import SchedulerExtError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class CommandGroup(click.Group):
    """Errors meant for the user leave as one line on stderr and exit 1; anything else is a bug and shows."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with the first paragraph of their help, wrapped and never cut off."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(command)) for name, command in commands if command])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SchedulerExtError as error:
            raise click.ClickException(printable(str(error))) from error

    def main(self, *args: Any, **extra: Any) -> Any:
        """A reader that went away ends it silently; what cannot be written is an error like any other."""
        try:
            return super().main(*args, **extra)
        except OSError as error:
            # Of a file, the command that opened it tells.
            if error.errno not in _FULL or error.filename is not None:
                raise
            # What is left of it would be tried, and told, again at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            click.echo(f"Error: standard output: {error.strerror}", err=True)
            sys.exit(1)


def _summary(command: click.Command) -> str:
    return " ".join(cleandoc(command.help or "").split("\n\n")[0].split())
