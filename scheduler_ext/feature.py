"""The interface between the kernel and its features. The kernel knows no feature by name: `installed` reads
their list, `features/installed.txt`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files


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
    `simulation` what it adds to simulations (`sim.extension`), `demo` what it adds to the demo (`cli.demo`),
    and `selectors` the function `read_expression` for selectors of devices (`wire.dra.device_selector`).
    `pages` has its pages about objects that are no workloads (`wire.kind_pages`)."""

    name: str
    commands: Sequence[Command] = ()
    settings: str = ""
    serving: str = ""
    simulation: str = ""
    demo: str = ""
    selectors: str = ""
    pages: Mapping[str, str] = field(default_factory=dict)


@cache
def installed() -> Sequence[Feature]:
    """The features of this installation."""
    text = files("scheduler_ext").joinpath("features", "installed.txt").read_text("utf-8")
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(import_module(line).FEATURE for line in lines if line)
