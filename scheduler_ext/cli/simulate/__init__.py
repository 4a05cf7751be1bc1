"""``scheduler-ext simulate``: what would happen, without any of it happening."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

import click

_NAMES = ("cluster",)


class _Commands(Mapping[str, click.Command]):
    """Each imported when it is asked for."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in _NAMES:
            raise KeyError(name)
        command: click.Command = getattr(import_module(f"scheduler_ext.cli.simulate.{name}"), name)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


# click only reads the commands.
@click.group(commands=_Commands())
def simulate() -> None:
    """Simulate what would happen to pods."""
