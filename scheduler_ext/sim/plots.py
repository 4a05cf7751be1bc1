"""Pictures of outcomes: allocation and fragmentation against arrived load, and a cluster at the end."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.sim.experiment import Outcome, at_load
from scheduler_ext.sim.trace_workload import GPU_MILLI

_DPI = 120
# Below this load the policies are equal.
_FROM_PERCENT = 60

Grouped = Mapping[str, Sequence[Outcome]]


def write_plots(folder: Path, outcomes: Sequence[Outcome]) -> list[Path]:
    """Write the pictures of each trace into a folder. They are TRACE-cluster.png and, for inflation,
    TRACE-allocation.png and TRACE-fragmentation.png. Raises SimulationError if matplotlib is missing, or
    the folder or a picture cannot be written."""
    by_trace: dict[str, dict[str, list[Outcome]]] = {}
    for outcome in outcomes:
        by_trace.setdefault(outcome.run.trace, {}).setdefault(outcome.run.policy, []).append(outcome)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [path for trace, group in by_trace.items() for path in _write(folder, trace, group)]
    except OSError as error:
        raise SimulationError(f"{error.filename}: cannot be written: {error.strerror}") from None


def require_matplotlib() -> None:
    """Raises SimulationError without matplotlib, to be called before the simulation."""
    _figure()


def _write(folder: Path, trace: str, by_policy: Grouped) -> list[Path]:
    pictures = {}
    if all(outcome.allocation_percent for group in by_policy.values() for outcome in group):
        allocation, fragmentation = (
            {policy: [getattr(each, name) for each in group] for policy, group in by_policy.items()}
            for name in ("allocation_percent", "fragmentation_percent")
        )
        pictures["allocation"] = _curves(
            f"{trace}: allocated", "GPUs allocated, %", allocation, _FROM_PERCENT
        )
        pictures["fragmentation"] = _curves(
            f"{trace}: fragmented", "GPUs idle and fragmented, %", fragmentation, 0
        )
    pictures["cluster"] = _clusters(trace, by_policy)
    written = {folder / f"{trace}-{name}.png": figure for name, figure in pictures.items()}
    for path, figure in written.items():
        figure.savefig(path, dpi=_DPI)
    return list(written)


def _figure(**options: Any) -> Any:
    try:
        from matplotlib.figure import Figure  # imported late: slow, and needed for pictures only
    except ImportError:
        raise SimulationError(
            "plots: matplotlib is not installed; pip install 'scheduler-ext[bench]'"
        ) from None
    return Figure(**options)


def _curves(title: str, label: str, curves: Mapping[str, Sequence[Mapping[int, float]]], start: int) -> Any:
    """A line per policy: the mean over seeds, in the band from the least to the greatest."""
    figure = _figure(figsize=(8, 5))
    axes = figure.subplots()
    for policy, group in curves.items():
        last = min(max(curve) for curve in group)
        loads = range(start if start < last else 0, last + 1)
        values = np.array([[at_load(curve, load) for load in loads] for curve in group])
        line = axes.plot(loads, values.mean(axis=0), label=policy, linewidth=1.2)[0]
        axes.fill_between(
            loads, values.min(axis=0), values.max(axis=0), color=line.get_color(), alpha=0.15, linewidth=0
        )
    axes.set(title=title, xlabel="arrived load, % of the GPUs", ylabel=label)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    return figure


def _clusters(trace: str, by_policy: Grouped) -> Any:
    """A panel per policy, for its first seed: a column per node, by model, and a cell per GPU."""
    figure = _figure(figsize=(12, 1.0 + 1.5 * len(by_policy)))
    panels = figure.subplots(len(by_policy), 1, squeeze=False)[:, 0]
    image = None
    for axes, (policy, group) in zip(panels, by_policy.items(), strict=True):
        used, borders = _cells(group[0])
        image = axes.imshow(
            np.ma.masked_invalid(used), aspect="auto", cmap="viridis", vmin=0, vmax=100, interpolation="none"
        )
        axes.set_title(f"{policy}, seed {group[0].run.seed}", fontsize=8, loc="left")
        axes.set_yticks([])
        axes.set_xticks([(start + end - 1) / 2 for _, start, end in borders])
        axes.set_xticklabels([model for model, _, _ in borders], fontsize=6, rotation=30, ha="right")
        for _, start, _ in borders[1:]:
            axes.axvline(start - 0.5, color="white", linewidth=0.8)
    figure.suptitle(f"{trace}: used part of every GPU at the end, nodes by model and use", fontsize=10)
    figure.tight_layout(rect=(0, 0, 0.92, 0.98))
    figure.colorbar(image, ax=list(panels), label="used, %", fraction=0.03)
    return figure


def _cells(outcome: Outcome) -> tuple[Floats, list[tuple[str, int, int]]]:
    """The used part of each GPU, `[slot, node]`, and the range of each model's nodes. Nodes are sorted by
    model and use; slots without a GPU are nan."""
    rooms = outcome.rooms_milli.astype(np.float64)
    used = np.where(rooms < 0, np.nan, 100.0 * (1.0 - rooms / GPU_MILLI))
    # The fullest GPU of a node is on top.
    used = -np.sort(-used, axis=0)
    models = np.array(outcome.models)
    order = np.lexsort((-np.nansum(used, axis=0), models))
    names, starts = np.unique(models[order], return_index=True)
    ends = [*starts[1:].tolist(), len(models)]
    borders = list(zip(names.tolist(), starts.tolist(), ends, strict=True))
    return used[:, order], borders
