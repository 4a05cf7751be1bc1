"""Summary of blocks: a row per contender, ratios taken round by round, and the promised bounds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.scheduler.block import Block
from benchmarks.scheduler.contenders import EVERY_NODE, NOOP_FEW, OURS, STOCK
from benchmarks.scheduler.exposition import merged

ALGORITHM = "algorithm"
THROUGHPUT = "podsPerSecond"
_VALUE: dict[str, Callable[[Block], float | None]] = {
    ALGORITHM: lambda block: block.algorithm.mean_ms,
    THROUGHPUT: lambda block: block.pods_per_s,
}
REFERENCES = {ALGORITHM: (STOCK.name, NOOP_FEW.name), THROUGHPUT: (STOCK.name, EVERY_NODE.name)}
"""The reference for each quantity."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The median over the rounds, the least and the greatest."""

    median: float
    least: float
    greatest: float

    def as_json(self) -> dict[str, float]:
        """The values in the report's form."""
        return {
            "median": round(self.median, 3),
            "min": round(self.least, 3),
            "max": round(self.greatest, 3),
        }


def spread(values: Iterable[float | None]) -> Spread | None:
    """The Spread of the measurements; None without any."""
    known = [value for value in values if value is not None]
    return Spread(statistics.median(known), min(known), max(known)) if known else None


@dataclass(frozen=True, slots=True)
class Row:
    """One contender at one cluster size, over all rounds; times in ms per pod, None without metrics.

    The quantiles are estimates from the buckets of all rounds together, whose bounds double.
    """

    nodes: int
    contender: str
    rounds: int
    pods: int
    algorithm_ms: Spread | None
    p50_ms: float | None
    p99_ms: float | None
    pods_per_s: Spread | None
    filter_plugins_ms: float | None
    score_plugins_ms: float | None
    scheduler_cpu_ms: float | None
    extender_ms: float | None
    batched: float | None
    errors: int

    def as_json(self) -> dict[str, Any]:
        """The row as the report's `rows` holds it."""
        return {
            "nodes": self.nodes,
            "contender": self.contender,
            "rounds": self.rounds,
            "pods": self.pods,
            "algorithmMeanMs": self.algorithm_ms.as_json() if self.algorithm_ms else None,
            "algorithmP50Ms": _rounded(self.p50_ms),
            "algorithmP99Ms": _rounded(self.p99_ms),
            "podsPerSecond": self.pods_per_s.as_json() if self.pods_per_s else None,
            "filterPluginsMs": _rounded(self.filter_plugins_ms),
            "scorePluginsMs": _rounded(self.score_plugins_ms),
            "schedulerCpuMs": _rounded(self.scheduler_cpu_ms),
            "extenderMs": _rounded(self.extender_ms),
            "batchedPart": _rounded(self.batched),
            "errors": self.errors,
        }


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of a contender's value to `against`'s, round by round."""

    nodes: int
    quantity: str
    contender: str
    against: str
    times: Spread

    def as_json(self) -> dict[str, Any]:
        """The ratio in the report's `ratios`."""
        return {
            "nodes": self.nodes,
            "quantity": self.quantity,
            "contender": self.contender,
            "against": self.against,
            **self.times.as_json(),
        }


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit ("must") or target ("goal") of the extender for the median of a ratio."""

    kind: str
    nodes: int
    quantity: str
    contender: str
    against: str
    limit: float
    at_most: bool

    def holds(self, ratio: Ratio) -> bool:
        """Whether the median is within the limit."""
        median = ratio.times.median
        return median <= self.limit if self.at_most else median >= self.limit

    def as_json(self, ratio: Ratio) -> dict[str, Any]:
        """A promise and its measurement, in the report's `bounds`."""
        return {
            "kind": self.kind,
            "nodes": self.nodes,
            "quantity": self.quantity,
            "contender": self.contender,
            "against": self.against,
            "atMost" if self.at_most else "atLeast": self.limit,
            "ratio": ratio.times.as_json(),
            "holds": self.holds(ratio),
        }

    def found(self, ratios: Iterable[Ratio]) -> Ratio | None:
        """The measurement of the bound."""
        subject = (self.nodes, self.quantity, self.contender, self.against)
        return next((r for r in ratios if (r.nodes, r.quantity, r.contender, r.against) == subject), None)


BOUNDS = (
    Bound("must", 5000, THROUGHPUT, OURS.name, EVERY_NODE.name, 2.0, at_most=False),
    Bound("must", 5000, THROUGHPUT, OURS.name, STOCK.name, 0.5, at_most=False),
)


def rows_of(blocks: Sequence[Block]) -> list[Row]:
    """One Row per cluster size and contender, in the order of their first run."""
    return [
        _row([block for block in blocks if (block.nodes, block.contender) == key])
        for key in dict.fromkeys((block.nodes, block.contender) for block in sorted(blocks, key=_first_ran))
    ]


def _first_ran(block: Block) -> tuple[int, int]:
    return block.nodes, block.round


def _row(blocks: Sequence[Block]) -> Row:
    algorithm = merged(block.algorithm for block in blocks)
    return Row(
        nodes=blocks[0].nodes,
        contender=blocks[0].contender,
        rounds=len(blocks),
        pods=sum(block.pods for block in blocks),
        algorithm_ms=spread(map(_VALUE[ALGORITHM], blocks)),
        p50_ms=algorithm.quantile_ms(0.5),
        p99_ms=algorithm.quantile_ms(0.99),
        pods_per_s=spread(map(_VALUE[THROUGHPUT], blocks)),
        filter_plugins_ms=_median(block.filter_plugins_ms for block in blocks),
        score_plugins_ms=_median(block.score_plugins_ms for block in blocks),
        scheduler_cpu_ms=_median(block.scheduler_cpu_ms for block in blocks),
        extender_ms=_median(block.extender_ms for block in blocks),
        batched=_median(block.batched for block in blocks),
        errors=sum(block.errors for block in blocks),
    )


def _median(values: Iterable[float | None]) -> float | None:
    found = spread(values)
    return found.median if found else None


def ratios_of(blocks: Sequence[Block]) -> list[Ratio]:
    """Every contender beside every reference of each quantity."""
    by_round = {(block.nodes, block.contender, block.round): block for block in blocks}
    ratios = []
    for nodes, contender in dict.fromkeys((block.nodes, block.contender) for block in blocks):
        rounds = [block.round for block in blocks if (block.nodes, block.contender) == (nodes, contender)]
        for quantity, references in REFERENCES.items():
            for against in references:
                if against == contender:
                    continue
                pairs = [
                    (by_round[nodes, contender, number], by_round.get((nodes, against, number)))
                    for number in rounds
                ]
                times = spread(_times(quantity, ours, theirs) for ours, theirs in pairs)
                if times:
                    ratios.append(Ratio(nodes, quantity, contender, against, times))
    return ratios


def _times(quantity: str, ours: Block, theirs: Block | None) -> float | None:
    value = _VALUE[quantity](ours)
    reference = _VALUE[quantity](theirs) if theirs else None
    return value / reference if value is not None and reference else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
