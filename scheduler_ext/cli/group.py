"""A group of commands: their import on demand, their summary in help, and the exit on errors."""

import errno
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from inspect import cleandoc
from typing import Any

import click

from scheduler_ext.core.errors import SchedulerExtError
from scheduler_ext.printable import printable

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_MODULES = {
    **dict.fromkeys(("nodes", "pods"), ".node"),
    **dict.fromkeys(("capacity", "replay"), ".explain"),
    **dict.fromkeys(("reasons", "check-config"), ".reference"),
    "defrag": "scheduler_ext.features.defrag.command",
    "cost": "scheduler_ext.features.cost.command",
    "autoscaler-config": "scheduler_ext.features.autoscaling.node_groups.command",
    "simulate": "scheduler_ext.sim.commands",
    "idle": "scheduler_ext.features.idle.command",
    "recommend": "scheduler_ext.features.idle.recommend.command",
    "queue": "scheduler_ext.features.gangs.queue.command",
}
# The commands of `kubectl gpu-placement`.
CLUSTER_COMMANDS = (
    "why",
    "nodes",
    "node",
    "pods",
    "queue",
    "explain",
    "capacity",
    "idle",
    "cost",
    "recommend",
    "defrag",
    "simulate",
    "reasons",
    "completion",
)
CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}


class LazyCommands(Mapping[str, click.Command]):
    """The commands of a package, imported on demand from the module of the same name or of _MODULES."""

    def __init__(self, package: str, names: Sequence[str]) -> None:
        self._package = package
        self._names = names

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._names:
            raise KeyError(name)
        module = import_module(_MODULES.get(name, f".{name}"), self._package)
        command: click.Command = getattr(module, name.replace("-", "_"))
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class CommandGroup(click.Group):
    """Errors meant for the user become one line on stderr and exit status 1; bugs keep their traceback."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with the first paragraph of their help, wrapped and never cut off."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        helps = [(name, cleandoc(command.help or "")) for name, command in commands if command]
        with formatter.section("Commands"):
            formatter.write_dl([(name, " ".join(text.split("\n\n")[0].split())) for name, text in helps])

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
