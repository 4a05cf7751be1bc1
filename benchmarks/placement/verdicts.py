"""Whether floors hold: margins over references, seed by seed, and their significance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.placement.floor_list import OURS, Condition, Floor
from benchmarks.placement.floor_runs import Cell, Runs
from scheduler_ext.sim.simulation_report import Run

# A margin equal to the wanted one is enough, despite rounding errors of the sum.
_ROUNDING = 1e-9
HEADER = ("FLOOR", "TRACE", "DEFAULT", "REFERENCE", "POLICY", "MARGIN", "+-", "WANTED", "VERDICT")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A floor and its result: figures in per cent, `margin` and its standard error in points.

    `trace` and `policy` belong to `reference`: the trace of the least margin and its best reference;
    empty for a mean and if the reference is a plain figure. The error is over the seeds, each with the
    reference on the same pods; None for one seed. `by_trace` has the margin on each trace.
    """

    floor: Floor
    trace: str
    policy: str
    ours: float
    reference: float
    margin: float
    error: float | None
    seeds: int
    by_trace: dict[str, float]

    @property
    def holds(self) -> bool:
        """Whether the margin is reached."""
        return self.margin >= self.floor.wanted - _ROUNDING

    def as_json(self) -> dict[str, Any]:
        """The result in the report's form."""
        return {
            "group": self.floor.group,
            "floor": self.floor.what,
            "trace": self.trace or None,
            "ours": round(self.ours, 4),
            "reference": round(self.reference, 4),
            "referencePolicy": self.policy or None,
            "margin": round(self.margin, 4),
            "standardError": None if self.error is None else round(self.error, 4),
            "seeds": self.seeds,
            "byTrace": {trace: round(margin, 4) for trace, margin in self.by_trace.items()},
            "wanted": self.floor.wanted,
            "holds": self.holds,
        }

    def cells(self) -> tuple[str, ...]:
        """As a row of the table."""
        return (
            self.floor.what,
            self.trace,
            f"{self.ours:.2f}",
            f"{self.reference:.2f}",
            self.policy,
            f"{self.margin:+.2f}",
            "" if self.error is None else f"{self.error:.2f}",
            f"{self.floor.wanted:+.1f}",
            "holds" if self.holds else "FAILS",
        )


@dataclass(frozen=True, slots=True)
class _OnTrace:
    """Figures by seed on one trace."""

    trace: str
    policy: str
    ours: list[float]
    reference: list[float]

    @property
    def margins(self) -> list[float]:
        return [ours - other for ours, other in zip(self.ours, self.reference, strict=True)]


def verdict_of(floor: Floor, traces: Sequence[str], seeds: Sequence[int], runs: Runs) -> Verdict:
    """The result of a floor on these traces, at least one."""
    found = [_on_trace(floor, trace, seeds, runs) for trace in traces]
    if floor.of_traces == "mean":
        policies = {each.policy for each in found}
        chosen = _OnTrace(
            "",
            policies.pop() if len(policies) == 1 else "",
            [_mean(each) for each in zip(*(each.ours for each in found), strict=True)],
            [_mean(each) for each in zip(*(each.reference for each in found), strict=True)],
        )
    else:
        chosen = min(found, key=lambda each: _mean(each.margins))
    return Verdict(
        floor=floor,
        trace=chosen.trace,
        policy=chosen.policy,
        ours=_mean(chosen.ours),
        reference=_mean(chosen.reference),
        margin=_mean(chosen.margins),
        error=_standard_error(chosen.margins),
        seeds=len(seeds),
        by_trace={each.trace: _mean(each.margins) for each in found},
    )


def _on_trace(floor: Floor, trace: str, seeds: Sequence[int], runs: Runs) -> _OnTrace:
    def figures(condition: Condition, policy: str) -> list[float]:
        return [_figure(runs[Cell(condition, trace, policy, seed)], floor.at) for seed in seeds]

    ours = figures(floor.condition, OURS)
    if floor.figure is not None:
        return _OnTrace(trace, "", ours, [floor.figure] * len(seeds))
    against = floor.against or floor.condition
    by_policy = {policy: figures(against, policy) for policy in floor.references}
    best = max(by_policy, key=lambda policy: _mean(by_policy[policy]))
    return _OnTrace(trace, best, ours, by_policy[best])


def _figure(run: Run, at: str | None) -> float:
    if at is not None:
        return (run.allocation_percent or {})[at]
    figure = (
        run.mean_allocation_percent if run.slice_acceptance_percent is None else run.slice_acceptance_percent
    )
    assert figure is not None
    return figure


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _standard_error(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    mean = _mean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
