"""A group of commands: their import on demand, their summary in help, and the exit on errors."""

import errno
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from scheduler_ext.core.errors import SchedulerExtError
from scheduler_ext.feature import Command
from scheduler_ext.printable import printable

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}


class LazyCommands(Mapping[str, click.Command]):
    """Commands that are imported when they are used. click only reads the mapping."""

    def __init__(self, sections: Mapping[str, Sequence[Command]]) -> None:
        """`sections` have the commands by title."""
        self.sections = sections
        self._found = {command.name: command for part in sections.values() for command in part}

    def __getitem__(self, name: str) -> click.Command:
        command: click.Command = getattr(import_module(self._found[name].module), name.replace("-", "_"))
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class CommandGroup(click.Group):
    """Errors meant for the user become one line on stderr and exit status 1; bugs keep their traceback."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with their summaries, wrapped and never cut off; none is imported for that."""
        assert isinstance(self.commands, LazyCommands)
        for title, commands in self.commands.sections.items():
            if commands:
                with formatter.section(title):
                    formatter.write_dl([(each.name, each.summary) for each in commands])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SchedulerExtError as error:
            raise click.ClickException(printable(str(error))) from error

    def main(self, *args: Any, **extra: Any) -> Any:
        """A closed pipe ends the command silently; a full disk on standard output is one error line."""
        try:
            return super().main(*args, **extra)
        except OSError as error:
            # For a named file, the command itself reports the error.
            if error.errno not in _FULL or error.filename is not None:
                raise
            # Python would flush the rest at exit and report the error again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            click.echo(f"Error: standard output: {error.strerror}", err=True)
            sys.exit(1)
