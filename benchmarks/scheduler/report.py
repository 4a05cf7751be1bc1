"""A scheduler report as JSON and as tables of plain text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.report import aligned
from benchmarks.scheduler.block import Block
from benchmarks.scheduler.summary import (
    ALGORITHM,
    BOUNDS,
    REFERENCES,
    Bound,
    Ratio,
    Row,
    Spread,
    ratios_of,
    rows_of,
)

_TOLD = {ALGORITHM: "algorithm time"}


def scheduler_report(
    machine: Mapping[str, Any], scheduler: str, command: str, blocks: Sequence[Block]
) -> dict[str, Any]:
    """The whole report, ready for JSON; `scheduler` is kube-scheduler's own version."""
    ratios = ratios_of(blocks)
    return {
        "apiVersion": "cli.scheduler-ext.io/v1alpha1",
        "kind": "SchedulerReport",
        "machine": dict(machine),
        "scheduler": scheduler,
        "command": command,
        "rows": [row.as_json() for row in rows_of(blocks)],
        "ratios": [ratio.as_json() for ratio in ratios],
        "bounds": [bound.as_json(ratio) for bound, ratio in _measured(ratios)],
        "blocks": [block.as_json() for block in blocks],
    }


def _measured(ratios: Sequence[Ratio]) -> list[tuple[Bound, Ratio]]:
    return [(bound, ratio) for bound in BOUNDS if (ratio := bound.found(ratios))]


def scheduler_table(rows: Iterable[Row]) -> str:
    """The rows as aligned columns, times in milliseconds per pod: medians of the rounds."""
    lines: list[tuple[str, ...]] = [
        (
            "NODES",
            "CONTENDER",
            "ALGORITHM",
            "MIN-MAX",
            "P50",
            "P99",
            "PLUGINS",
            "EXTENDER",
            "BATCHED",
            "PODS/S",
            "MIN-MAX",
            "ERRORS",
        )
    ]
    for row in rows:
        plugins = [
            time_ms for time_ms in (row.filter_plugins_ms, row.score_plugins_ms) if time_ms is not None
        ]
        lines.append(
            (
                str(row.nodes),
                row.contender,
                *_cells(row.algorithm_ms, 2),
                _cell(row.p50_ms, 1),
                _cell(row.p99_ms, 1),
                _cell(sum(plugins) if plugins else None, 2),
                _cell(row.extender_ms, 2),
                "-" if row.batched is None else f"{row.batched:.0%}",
                *_cells(row.pods_per_s, 1),
                str(row.errors),
            )
        )
    return aligned(lines)


def ratio_table(ratios: Sequence[Ratio]) -> str:
    """The ratio of each contender's values to the references', and whether the bounds hold."""
    references = [(quantity, against) for quantity, names in REFERENCES.items() for against in names]
    headings = [f"{_TOLD.get(quantity, 'pods/s')} / {against}".upper() for quantity, against in references]
    lines: list[tuple[str, ...]] = [("NODES", "CONTENDER", *headings)]
    by_subject = {(r.nodes, r.contender, r.quantity, r.against): r.times for r in ratios}
    for nodes, contender in dict.fromkeys((ratio.nodes, ratio.contender) for ratio in ratios):
        found = (by_subject.get((nodes, contender, *reference)) for reference in references)
        lines.append((str(nodes), contender, *map(_ratio_cell, found)))
    return aligned(lines)


def bound_lines(ratios: Sequence[Ratio]) -> list[str]:
    """One sentence per bound that was measured."""
    return [_sentence(bound, ratio) for bound, ratio in _measured(ratios)]


def _sentence(bound: Bound, ratio: Ratio) -> str:
    limit = f"{'<=' if bound.at_most else '>='} {bound.limit:g}"
    verdict = "holds" if bound.holds(ratio) else "MISSED"
    what = f"{_TOLD.get(bound.quantity, 'pods/s')} of {bound.contender} / {bound.against}"
    return f"{bound.kind} at {bound.nodes} nodes: {what} {limit}: {_ratio_cell(ratio.times)} {verdict}"


def _cells(spread: Spread | None, digits: int) -> tuple[str, str]:
    """The median, and the range in brackets."""
    if spread is None:
        return "-", "-"
    return f"{spread.median:.{digits}f}", f"({spread.least:.{digits}f}-{spread.greatest:.{digits}f})"


def _ratio_cell(times: Spread | None) -> str:
    return "-" if times is None else " ".join(_cells(times, 2))


def _cell(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
