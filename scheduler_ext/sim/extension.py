"""What a feature adds to simulations. The simulator knows no feature by name: `Feature.simulation` names a
module with an `Extension` as EXTENSION."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

import click

from scheduler_ext.cli.options import Decorator
from scheduler_ext.core.request.gang_request import GangRequest
from scheduler_ext.feature import installed
from scheduler_ext.sim.experiment import Experiment, RunOutcome
from scheduler_ext.whatif.whatif import PodInfo, WhatIf
from scheduler_ext.wire.objects import Objects

Json = dict[str, Any]


class TraceOptions(Protocol):
    """The values of added options of `simulate trace`."""

    def check(self, ctx: click.Context, protocol: str, load: float) -> None:
        """Raises click.UsageError for options that contradict each other."""

    def runs(self) -> Sequence[Callable[[Experiment], RunOutcome]]:
        """What runs for each policy and seed in place of the protocol; none: the protocol itself."""


@dataclass(frozen=True, slots=True)
class Missed:
    """Why a gang has no places: what is missing, and by uid of a pod that finds none beside the others, the
    fields of its nearest refusal in a Simulation."""

    message: str
    refused: Mapping[str, Json | None] = field(default_factory=dict)


class GangPlaces(Protocol):
    """The gangs of `simulate cluster`, those with pods on the cluster included."""

    def place(self, members: Sequence[tuple[GangRequest, PodInfo]]) -> Mapping[str, Json] | Missed:
        """Put the members of a gang on nodes, as many as its size. By uid, what each of them got: the fields
        of its node, devices and value in a Simulation; or why none of them has a place."""


@dataclass(frozen=True, kw_only=True)
class Extension:
    """`trace_options` reach `simulate trace` as one parameter, its TraceOptions; `trace_help` and
    `cluster_help` continue the help of the commands. Without any `gangs`, `simulate cluster` places the pods
    of a gang like others."""

    trace_options: Decorator
    trace_help: str
    cluster_help: str
    gangs: Callable[[WhatIf, Objects], GangPlaces]


def extensions() -> Sequence[Extension]:
    """Of the installed features."""
    return [import_module(each.simulation).EXTENSION for each in installed() if each.simulation]
