"""Commands that are imported when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module

import click


class LazyCommands(Mapping[str, click.Command]):
    """The commands of a package, a module each of the command's name, with underscores for hyphens."""

    def __init__(self, package: str, names: Sequence[str]) -> None:
        self._package = package
        self._names = names

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._names:
            raise KeyError(name)
        module = name.replace("-", "_")
        command: click.Command = getattr(import_module(f"{self._package}.{module}"), module)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
