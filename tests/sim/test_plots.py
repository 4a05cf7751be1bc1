"""The plots of outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from scheduler_ext.sim.experiment import RunOutcome
from scheduler_ext.sim.plots import write_plots
from scheduler_ext.sim.protocols import run_inflation
from scheduler_ext.sim.trace_workload import PodKind, TracePod
from scheduler_ext.sim.world import TraceNode
from tests.sim.small import SMALL

pytestmark = pytest.mark.process

PNG = b"\x89PNG"


def test_a_trace_has_three_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    outcomes = [run_inflation(replace(SMALL, policy=policy, load=0.5)) for policy in ("fgd", "random")]
    written = write_plots(tmp_path / "new", outcomes)
    assert [path.name for path in written] == [
        "small-allocation.png",
        "small-fragmentation.png",
        "small-cluster.png",
    ]
    assert all(path.read_bytes().startswith(PNG) for path in written)


Panels = Callable[[Sequence[RunOutcome]], list[Any]]


@pytest.fixture
def panels_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Panels:
    """The panels of the plot of allocation."""
    figure = pytest.importorskip("matplotlib.figure")
    drawn: list[Any] = []
    monkeypatch.setattr(figure.Figure, "savefig", lambda self, path, **_: drawn.append(self))

    def panels(outcomes: Sequence[RunOutcome]) -> list[Any]:
        write_plots(tmp_path, outcomes)
        return list(drawn[0].axes)

    return panels


def curve_of(outcome: RunOutcome, policy: str, at_100: float, seed: int = 1) -> RunOutcome:
    """The outcome with another policy, seed and allocation."""
    run = structs.replace(outcome.run, policy=policy, seed=seed)
    return replace(outcome, run=run, allocation_percent={0: 0.0, 60: 60.0, 100: at_100})


@pytest.fixture(scope="module")
def outcome() -> RunOutcome:
    return run_inflation(replace(SMALL, load=0.2))


@pytest.mark.parametrize(
    ("at_100", "reference", "ends"),
    [
        pytest.param(
            {"fgd": 94.0, "default": 95.0, "best-fit": 93.0},
            "default",
            {"fgd": -1.0, "default": 0.0, "best-fit": -2.0},
            id="the default policy is the reference",
        ),
        pytest.param(
            {"fgd": 94.0, "best-fit": 93.0},
            "fgd",
            {"fgd": 0.0, "best-fit": -1.0},
            id="without it, the first policy is",
        ),
    ],
)
def test_a_second_panel_has_the_differences(
    panels_of: Panels,
    outcome: RunOutcome,
    at_100: dict[str, float],
    reference: str,
    ends: dict[str, float],
) -> None:
    outcomes = [
        curve_of(outcome, policy, value + seed, seed) for policy, value in at_100.items() for seed in (1, 2)
    ]
    _, panel = panels_of(outcomes)
    assert panel.get_title() == f"difference to {reference}"
    assert {line.get_label(): line.get_ydata()[-1] for line in panel.lines} == ends


@pytest.mark.parametrize(
    "curves",
    [
        pytest.param([("default", 95.0, 1), ("fgd", 95.0, 1)], id="two equal policies"),
        pytest.param([("default", 95.0, 1), ("fgd", 94.0, 1), ("fgd", 94.0, 2)], id="unequal seeds"),
    ],
)
def test_without_differences_there_is_one_panel(
    panels_of: Panels, outcome: RunOutcome, curves: list[tuple[str, float, int]]
) -> None:
    outcomes = [curve_of(outcome, policy, value, seed) for policy, value, seed in curves]
    assert len(panels_of(outcomes)) == 1


def test_a_curve_goes_over_all_loads_where_a_pod_is_several_per_cent(panels_of: Panels) -> None:
    pods = tuple(TracePod(f"p-{milli}", PodKind(100, 100, 1, milli)) for milli in (300, 700, 1000))
    small = replace(SMALL, nodes=(TraceNode("node", 8000, 8000, 3, "T4"),), pods=pods)
    outcomes = [run_inflation(replace(small, seed=seed)) for seed in range(10)]
    (line,) = panels_of(outcomes)[0].lines
    loads = line.get_xdata().tolist()
    assert loads == list(range(60, loads[-1] + 1))
    assert 100 < loads[-1] <= 130
    # The mean over seeds of the allocation before the last pod.
    held = [max(load for load in outcome.allocation_percent if load <= 100) for outcome in outcomes]
    mean = sum(o.allocation_percent[load] for o, load in zip(outcomes, held, strict=True)) / 10
    assert line.get_ydata()[loads.index(100)] == pytest.approx(mean)


def test_the_legend_has_names_that_begin_with_an_underscore(panels_of: Panels, outcome: RunOutcome) -> None:
    outcomes = [curve_of(outcome, policy, 90.0) for policy in ("default", "_mine")]
    legend = panels_of(outcomes)[0].get_legend()
    assert [text.get_text().strip() for text in legend.get_texts()] == ["default", "_mine"]
