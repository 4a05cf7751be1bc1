"""The picture of a scheduler report: time to decide and pods per second, by cluster size and contender."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.scheduler.contenders import CONTENDERS
from benchmarks.scheduler.summary import Row, Spread

_OURS, _OTHERS = "#4292c6", "#bdbdbd"


def write_plot(path: Path, rows: Sequence[Row], machine: str) -> None:
    """Draw the rows into a PNG, a column of panels per cluster size: medians, least and greatest.

    Raises ImportError where matplotlib is missing: it comes with the `bench` extra.
    """
    from matplotlib.figure import Figure  # imported late: slow, and needed for --png only

    sizes = list(dict.fromkeys(row.nodes for row in rows))
    figure = Figure(figsize=(max(10.0, 4.6 * len(sizes)), 8))
    panels = figure.subplots(2, len(sizes), squeeze=False)
    for (above, below), nodes in zip(panels.T, sizes, strict=True):
        at_size = [row for row in rows if row.nodes == nodes]
        _draw(above, at_size, lambda row: row.algorithm_ms)
        above.set(title=f"{nodes} nodes of 8 GPUs")
        _draw(below, at_size, lambda row: row.pods_per_s)
    panels[0][0].set(ylabel="scheduling algorithm, mean ms per pod")
    panels[1][0].set(ylabel="pods bound per second")
    known = [f"{name}: {CONTENDERS[name].about}" for name in dict.fromkeys(row.contender for row in rows)]
    rounds = max((row.rounds for row in rows), default=0)
    told = f"{'; '.join(known)}. Bars are medians of {rounds} rounds, whiskers the least and the greatest."
    figure.text(0.01, 0.025, told, fontsize=7)
    figure.text(0.01, 0.005, machine, fontsize=6, color="#555555")
    figure.tight_layout(rect=(0, 0.045, 1, 1))
    figure.savefig(path, dpi=120)


def _draw(axes: Any, rows: Sequence[Row], value: Callable[[Row], Spread | None]) -> None:
    measured = [(row.contender, spread) for row in rows if (spread := value(row)) is not None]
    medians = [spread.median for _, spread in measured]
    axes.bar(
        [name for name, _ in measured],
        medians,
        yerr=[
            [spread.median - spread.least for _, spread in measured],
            [spread.greatest - spread.median for _, spread in measured],
        ],
        error_kw={"elinewidth": 0.8, "capsize": 3, "ecolor": "#444444"},
        color=[_OURS if CONTENDERS[name].is_ours else _OTHERS for name, _ in measured],
    )
    # At the foot of the bar, where no whisker is.
    for place, median in enumerate(medians):
        axes.annotate(
            f"{median:.3g}", (place, 0), (0, 4), textcoords="offset points", ha="center", fontsize=9
        )
    axes.grid(visible=True, axis="y", alpha=0.3)
    axes.set_axisbelow(True)
