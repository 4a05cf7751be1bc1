"""``scheduler-ext simulate``: what would be decided, without a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

import click

_NAMES = ("mig",)


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


@click.group(commands=_Commands())  # click only reads it
def simulate() -> None:
    """Decide on pods and clusters that are not there."""
