"""Pictures of outcomes: allocation and fragmentation against arrived load, and a cluster at the end."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from statistics import median_high
from typing import Any

import numpy as np

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.sim.experiment import RunOutcome, at_load
from scheduler_ext.sim.policies.default import Default
from scheduler_ext.sim.trace_workload import GPU_MILLI

_DPI = 120
# Below this load the policies are equal.
_FROM_PERCENT = 60
# Above and below the lines of differences, as a part of their range.
_MARGIN = 0.1

Grouped = Mapping[str, Sequence[RunOutcome]]


def write_plots(folder: Path, outcomes: Sequence[RunOutcome]) -> list[Path]:
    """Write the pictures of each trace into a folder. They are TRACE-cluster.png and, for inflation,
    TRACE-allocation.png and TRACE-fragmentation.png. Raises SimulationError if matplotlib is missing, or
    the folder or a picture cannot be written."""
    by_trace: dict[str, dict[str, list[RunOutcome]]] = {}
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
    """A line per policy: the mean over seeds, in the band from the least to the greatest. A second panel has
    the differences to the default policy, or to the first without it, seed by seed, as the pods of a seed are
    the same for all; its bands are a standard error to both sides."""
    loads = _loads(curves.values(), start)
    values = {
        policy: np.array([[at_load(curve, load) for load in loads] for curve in group])
        for policy, group in curves.items()
    }
    reference = Default.name if Default.name in values else next(iter(values))
    differences = _differences(values, reference)
    figure = _figure(figsize=(13, 5) if differences else (8, 5))
    panels = figure.subplots(1, 2 if differences else 1, squeeze=False)[0]
    _draw(panels[0], loads, values, lambda each: (each.min(axis=0), each.max(axis=0)))
    panels[0].set(title=title, ylabel=label)
    panels[0].legend(fontsize=8)
    if differences:
        _draw(panels[1], loads, differences, _within_errors)
        panels[1].set(title=f"difference to {reference}", ylabel="points", ylim=_limits(differences))
    figure.tight_layout()
    return figure


def _loads(groups: Collection[Sequence[Mapping[int, float]]], start: int) -> range:
    """The loads that all curves reach, from `start` on if they get there."""
    last = min(max(curve) for group in groups for curve in group)
    return range(start if start < last else 0, last + 1)


def _draw(
    axes: Any, loads: range, values: Mapping[str, Floats], band: Callable[[Floats], tuple[Floats, Floats]]
) -> None:
    """The lines of `[seed, load]` values, each in its band; the default policy's is the heaviest, on top."""
    for policy, each in values.items():
        ours = policy == Default.name
        # The legend leaves out labels that begin with an underscore.
        label = f" {policy}" if policy.startswith("_") else policy
        (line,) = axes.plot(
            loads, each.mean(axis=0), label=label, linewidth=2.6 if ours else 1.2, zorder=3 if ours else 2
        )
        axes.fill_between(loads, *band(each), color=line.get_color(), alpha=0.15, linewidth=0)
    axes.set(xlabel="arrived load, % of the GPUs")
    axes.grid(visible=True, alpha=0.3)


def _within_errors(values: Floats) -> tuple[Floats, Floats]:
    seeds, mean = len(values), values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.zeros_like(mean)
    return mean - error, mean + error


def _differences(values: Mapping[str, Floats], reference: str) -> dict[str, Floats]:
    """The values less those of the reference; empty if the policies had other seeds or never differ."""
    base = values[reference]
    if any(each.shape != base.shape for each in values.values()):
        return {}
    differences = {policy: each - base for policy, each in values.items()}
    return differences if any(each.any() for each in differences.values()) else {}


def _limits(differences: Mapping[str, Floats]) -> tuple[float, float]:
    """The range of the lines of the nearer half of the policies: a distant one would flatten the others."""
    means = [each.mean(axis=0) for each in differences.values() if each.any()]
    furthest = [float(np.abs(mean).max()) for mean in means]
    near = [mean for mean, most in zip(means, furthest, strict=True) if most <= median_high(furthest)]
    least, greatest = min(0.0, *(mean.min() for mean in near)), max(0.0, *(mean.max() for mean in near))
    margin = _MARGIN * (greatest - least)
    return least - margin, greatest + margin


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


def _cells(outcome: RunOutcome) -> tuple[Floats, list[tuple[str, int, int]]]:
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
