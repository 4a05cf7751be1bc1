"""The list of commands, which is written apart from them."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc

import click

from scheduler_ext.cli.group import LazyCommands
from scheduler_ext.main import main, plugin


def listed(group: click.Group) -> Iterator[tuple[str, str, click.Command]]:
    """Each command with its summary in the list, those of groups included."""
    assert isinstance(group.commands, LazyCommands)
    for commands in group.commands.sections.values():
        for each in commands:
            command = group.commands[each.name]
            yield each.name, each.summary, command
            if isinstance(command, click.Group):
                yield from listed(command)


def test_a_summary_is_the_first_paragraph_of_the_help() -> None:
    found = list(listed(main))
    first = [(name, cleandoc(command.help or "").split("\n\n")[0]) for name, _, command in found]
    listing = [(name, summary) for name, summary, _ in found]
    assert listing == [(name, " ".join(text.split())) for name, text in first]


def test_kubectl_has_commands_of_the_command_line_only() -> None:
    assert plugin.commands.items() <= main.commands.items()
