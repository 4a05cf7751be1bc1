"""Rows of a latency report: percentiles, the promised bounds, JSON and a table of plain text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.client import VerbMeasurement


@dataclass(frozen=True, slots=True)
class Row:
    """Latency of one verb for one kind of pod, cluster size and number of connections; None without samples.

    `p50_us` and the others are microseconds at the client; `noop_p50_us` is the no-op server's median over
    the same bodies in the same run; `request_names` is how many nodes the last request named.
    """

    verb: str
    kind: str
    nodes: int
    connections: int
    p50_us: float | None
    p90_us: float | None
    p99_us: float | None
    noop_p50_us: float | None
    errors: int
    request_names: int
    request_bytes: int
    reply_bytes: int
    samples: int
    connects: int

    @property
    def ratio(self) -> float | None:
        """Ratio to the no-op server's median."""
        if self.p50_us is None or not self.noop_p50_us:
            return None
        return round(self.p50_us / self.noop_p50_us, 3)

    def as_json(self) -> dict[str, Any]:
        """The row in the report's `rows`."""
        return {
            "verb": self.verb,
            "kind": self.kind,
            "nodes": self.nodes,
            "connections": self.connections,
            "p50Us": self.p50_us,
            "p90Us": self.p90_us,
            "p99Us": self.p99_us,
            "noopP50Us": self.noop_p50_us,
            "ratio": self.ratio,
            "errors": self.errors,
        }

    def sizes_as_json(self) -> dict[str, Any]:
        """The sizes of the row's requests in the report's `sizes`, in the order of `rows`."""
        return {
            "verb": self.verb,
            "kind": self.kind,
            "nodes": self.nodes,
            "connections": self.connections,
            "samples": self.samples,
            "requestNames": self.request_names,
            "requestBytes": self.request_bytes,
            "replyBytes": self.reply_bytes,
            "connects": self.connects,
        }


@dataclass(frozen=True, slots=True)
class GrowthPoint:
    """Filter latency at one point of an axis: `names` (states fixed) or `states` (names fixed)."""

    axis: str
    distinct_states: int
    row: Row

    def as_json(self) -> dict[str, Any]:
        """The point in the report's `growth`."""
        return {"axis": self.axis, "distinctStates": self.distinct_states, **self.row.as_json()}


@dataclass(frozen=True, slots=True)
class Bound:
    """A promise for one connection: p50 at most `must` times the no-op server's, and `goal` as the target.

    `names` is the number of names in the request.
    """

    verb: str
    names: int
    must: float
    goal: float

    def covers(self, row: Row) -> bool:
        """Whether `row` is a measurement for this bound."""
        return (row.verb, row.request_names, row.connections) == (self.verb, self.names, 1)

    def verdict(self, row: Row) -> str:
        """One of "goal", "must", "missed"; "missed" also if nothing was measured."""
        if row.ratio is None or row.ratio > self.must:
            return "missed"
        return "goal" if row.ratio <= self.goal else "must"


BOUNDS = (
    Bound("filter", 5000, must=4.5, goal=3.0),
    Bound("filter", 500, must=2.5, goal=2.0),
    Bound("prioritize", 100, must=1.5, goal=1.3),
)


def row_of(measurement: VerbMeasurement, kind: str, nodes: int, connections: int) -> Row:
    """The Row that summarises a measurement."""
    return Row(
        verb=measurement.verb,
        kind=kind,
        nodes=nodes,
        connections=connections,
        p50_us=percentile_us(measurement.elapsed_ns, 50),
        p90_us=percentile_us(measurement.elapsed_ns, 90),
        p99_us=percentile_us(measurement.elapsed_ns, 99),
        noop_p50_us=percentile_us(measurement.noop_elapsed_ns, 50),
        errors=measurement.errors,
        request_names=measurement.request_names,
        request_bytes=measurement.request_bytes,
        reply_bytes=measurement.reply_bytes,
        samples=len(measurement.elapsed_ns),
        connects=measurement.connects,
    )


def percentile_us(samples_ns: Sequence[int], percent: float) -> float | None:
    """The nearest-rank percentile in microseconds: a value that was measured, None without samples."""
    if not samples_ns:
        return None
    rank = max(1, math.ceil(len(samples_ns) * percent / 100))
    return round(sorted(samples_ns)[rank - 1] / 1000, 1)


def latency_report(
    machine: Mapping[str, Any], command: str, rows: Sequence[Row], growth: Sequence[GrowthPoint]
) -> dict[str, Any]:
    """The whole report, ready for JSON."""
    return {
        "apiVersion": "cli.scheduler-ext.io/v1alpha1",
        "kind": "LatencyReport",
        "machine": dict(machine),
        "command": command,
        "rows": [row.as_json() for row in rows],
        "sizes": [row.sizes_as_json() for row in rows],
        "bounds": [
            {
                "verb": bound.verb,
                "names": bound.names,
                "kind": row.kind,
                "nodes": row.nodes,
                "must": bound.must,
                "goal": bound.goal,
                "ratio": row.ratio,
                "verdict": bound.verdict(row),
            }
            for bound in BOUNDS
            for row in rows
            if bound.covers(row)
        ],
        "growth": [point.as_json() for point in growth],
    }


_HEADINGS = (
    "VERB",
    "KIND",
    "NODES",
    "NAMES",
    "CONNS",
    "P50",
    "P90",
    "P99",
    "NOOP P50",
    "RATIO",
    "ERRORS",
    "BOUND",
)


def latency_table(rows: Iterable[Row]) -> str:
    """The rows as aligned columns, times in microseconds."""
    lines: list[tuple[str, ...]] = [_HEADINGS]
    for row in rows:
        times = (row.p50_us, row.p90_us, row.p99_us, row.noop_p50_us)
        lines.append(
            (
                row.verb,
                row.kind,
                str(row.nodes),
                str(row.request_names),
                str(row.connections),
                *("-" if time_us is None else f"{time_us:.0f}" for time_us in times),
                "-" if row.ratio is None else f"{row.ratio:.2f}",
                str(row.errors),
                _bound_cell(row),
            )
        )
    return aligned(lines)


def growth_table(points: Iterable[GrowthPoint]) -> str:
    """The growth points as aligned columns, times in microseconds."""
    lines: list[tuple[str, ...]] = [
        ("GROWTH", "KIND", "NAMES", "STATES", "P50", "NOOP P50", "RATIO", "ERRORS")
    ]
    for point in points:
        row = point.row
        times = ("-" if time_us is None else f"{time_us:.0f}" for time_us in (row.p50_us, row.noop_p50_us))
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        lines.append(
            (point.axis, row.kind, str(row.nodes), str(point.distinct_states), *times, ratio, str(row.errors))
        )
    return aligned(lines)


def _bound_cell(row: Row) -> str:
    for bound in BOUNDS:
        if bound.covers(row):
            verdict = bound.verdict(row)
            if verdict == "missed":
                return f"MISSED must <= {bound.must:g}"
            return (
                f"goal <= {bound.goal:g} ok"
                if verdict == "goal"
                else f"must <= {bound.must:g} ok, goal {bound.goal:g}"
            )
    return ""


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Rows of cells as columns: numbers to the right, words to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if cell[:1].isdigit() or cell == "-" else cell.ljust(width)
            for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )
