"""The picture of a latency report: latency by cluster size beside the no-op server, and its growth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import GrowthPoint, Row

_COLOURS = {"whole": "#1f77b4", "share": "#d62728", "mig": "#2ca02c"}
_MARKERS = {"filter": "o", "prioritize": "s"}
_AXES = {"names": ("-", "o"), "states": ("--", "^")}


def write_plot(path: Path, rows: Sequence[Row], growth: Sequence[GrowthPoint], machine: str) -> None:
    """Draw rows (left: fewest connections only) and growth (right) into a PNG.

    Raises ImportError where matplotlib is missing: it comes with the `bench` extra.
    """
    from matplotlib.figure import Figure  # imported late: slow, and needed for --png only

    figure = Figure(figsize=(14, 6))
    left, right = figure.subplots(1, 2)
    _draw_latency(left, rows)
    _draw_growth(right, growth)
    figure.text(0.01, 0.005, machine, fontsize=6, color="#555555")
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.savefig(path, dpi=120)


def _draw_latency(axes: Any, rows: Sequence[Row]) -> None:
    connections = min((row.connections for row in rows), default=1)
    shown = [row for row in rows if row.connections == connections and row.p50_us is not None]
    for verb in dict.fromkeys(row.verb for row in shown):
        for kind in dict.fromkeys(row.kind for row in shown):
            line = sorted(
                (row for row in shown if (row.verb, row.kind) == (verb, kind)), key=lambda r: r.nodes
            )
            axes.plot(
                [row.nodes for row in line],
                [_ms(row.p50_us) for row in line],
                color=_COLOURS.get(kind),
                marker=_MARKERS.get(verb),
                linestyle="-" if verb == "filter" else ":",
                label=f"{verb}, {kind}",
            )
        noop = sorted((row for row in shown if row.verb == verb), key=lambda r: r.nodes)
        sizes = list(dict.fromkeys(row.nodes for row in noop))
        lowest = [min(_ms(row.noop_p50_us) for row in noop if row.nodes == size) for size in sizes]
        style = "-" if verb == "filter" else ":"
        axes.plot(sizes, lowest, color="#777777", linestyle=style, label=f"no-op, same bodies as {verb}")
    _annotate_slowest(axes, [row for row in shown if row.verb == "filter"])
    axes.set(
        title=f"p50 by cluster size, {connections} connection(s); numbers: times the no-op",
        xlabel="nodes of 8 GPUs, all named to filter",
        ylabel="p50 at the client, ms",
        xscale="log",
        yscale="log",
    )
    _plain_numbers(axes)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=7)


def _annotate_slowest(axes: Any, rows: Sequence[Row]) -> None:
    """One number for each size, because the numbers of several kinds would overlap."""
    for size in dict.fromkeys(row.nodes for row in rows):
        slowest = max((row for row in rows if row.nodes == size), key=lambda row: _ms(row.p50_us))
        axes.annotate(
            f"{slowest.ratio:.1f}x",
            (size, _ms(slowest.p50_us)),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )


def _draw_growth(axes: Any, growth: Sequence[GrowthPoint]) -> None:
    axes.set(
        title="What filter grows with",
        xlabel="names in the request, or different GPU states among its nodes",
        ylabel="filter p50 at the client, ms",
        xscale="log",
        yscale="log",
    )
    axes.grid(visible=True, alpha=0.3)
    measured = [point for point in growth if point.row.p50_us is not None]
    if not measured:
        axes.text(0.5, 0.5, "growth was not measured", ha="center", transform=axes.transAxes)
        return
    for axis, kind in dict.fromkeys((point.axis, point.row.kind) for point in measured):
        line = [point for point in measured if (point.axis, point.row.kind) == (axis, kind)]
        if axis == "names":
            at = [point.row.nodes for point in line]
            label = f"{kind}: names, {line[-1].distinct_states} states"
        else:
            at = [point.distinct_states for point in line]
            label = f"{kind}: states, {line[-1].row.nodes} names"
        style, marker = _AXES[axis]
        latencies = [_ms(point.row.p50_us) for point in line]
        axes.plot(at, latencies, color=_COLOURS.get(kind), linestyle=style, marker=marker, label=label)
    _plain_numbers(axes)
    axes.legend(fontsize=7)


def _plain_numbers(axes: Any) -> None:
    """Label logarithmic axes with numbers instead of powers of ten."""
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="y", which="minor", labelsize=6)


def _ms(time_us: float | None) -> float:
    return (time_us or 0.0) / 1000
