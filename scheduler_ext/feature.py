"""The interface between the kernel and its features. The kernel knows no feature by name: it asks `installed`
for the list."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module


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
    """One feature. The module that defines it imports nothing else of its room, so that the list is light:
    its parts are named by their modules, which are imported when they are used. `settings` has its sections
    of the configuration (`wire.config`), `serving` what the feature does in `serve` (`server.serving`),
    `simulation` what it adds to simulations (`sim.extension`), and `demo` what it adds to the demo
    (`cli.demo`)."""

    name: str
    commands: Sequence[Command] = ()
    settings: str = ""
    serving: str = ""
    simulation: str = ""
    demo: str = ""


@cache
def installed() -> Sequence[Feature]:
    """The features of this installation; by the name of the list, because the kernel imports none."""
    features: Sequence[Feature] = import_module("scheduler_ext.features.installed").FEATURES
    return features
