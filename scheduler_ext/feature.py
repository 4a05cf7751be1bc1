"""The interface between the kernel and its features. The kernel knows no feature by name:
`features.installed` has the list, and `main` puts both together."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A command that is imported when it is used: `module` has it under its name. `summary` is the first
    paragraph of its help, for the list of commands. `plugin`: `kubectl gpu-placement` has it, too."""

    name: str
    module: str
    summary: str
    plugin: bool = False


@dataclass(frozen=True, kw_only=True)
class Feature:
    """One feature. The module that defines it imports nothing else of its room, so that the list is light."""

    name: str
    commands: Sequence[Command] = ()
