"""Values that only simulations take."""

from __future__ import annotations

from typing import Any

import click

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.expectation import first_count
from scheduler_ext.sim.intree_scores import INTREE_SCORES
from scheduler_ext.sim.policies import policy_factory


class Policies(click.ParamType[tuple[str, ...]]):
    """Names of policies, separated by commas."""

    name = "policies"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(dict.fromkeys(part.strip() for part in str(value).split(",")))
        for name in names:
            try:
                policy_factory(name)
            except SimulationError as error:
                self.fail(str(error), param, ctx)
        return names


class TargetName(click.ParamType[str]):
    """Which workload a policy is told to expect."""

    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            first_count(str(value))
        except SimulationError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class IntreeWeight(click.ParamType[tuple[str, int]]):
    """One of kube-scheduler's own scores and its weight, as NAME=WEIGHT."""

    name = "NAME=WEIGHT"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        name, _, weight = str(value).partition("=")
        if name not in INTREE_SCORES:
            self.fail(f"{name!r}: unknown; known are {', '.join(INTREE_SCORES)}", param, ctx)
        if not weight.isdecimal() or not 0 < int(weight) <= 100:
            self.fail(f"{name}: write {name}=WEIGHT, of 1 to 100", param, ctx)
        return name, int(weight)
