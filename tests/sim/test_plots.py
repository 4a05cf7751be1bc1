"""The plots of outcomes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.experiment import Outcome
from scheduler_ext.sim.plots import write_plots
from scheduler_ext.sim.protocols import run_churn, run_inflation
from scheduler_ext.sim.trace_workload import PodKind, TracePod
from scheduler_ext.sim.world import NodeShape
from tests.sim.test_protocols import SMALL

PNG = b"\x89PNG"


@pytest.mark.process
def test_a_trace_has_three_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    outcomes = [
        run_inflation(replace(SMALL, policy=policy, seed=seed))
        for policy in ("fgd", "random")
        for seed in (1, 2)
    ]
    written = write_plots(tmp_path / "new", outcomes)
    assert [path.name for path in written] == [
        "small-allocation.png",
        "small-fragmentation.png",
        "small-cluster.png",
    ]
    assert all(path.read_bytes().startswith(PNG) for path in written)


def lines_of(monkeypatch: pytest.MonkeyPatch, folder: Path, outcomes: Sequence[Outcome]) -> list[Any]:
    """The drawn curves of allocation."""
    figure = pytest.importorskip("matplotlib.figure")
    drawn = []

    def keep(self: Any, path: Path, **_: Any) -> None:
        drawn.append(self)

    monkeypatch.setattr(figure.Figure, "savefig", keep)
    write_plots(folder, outcomes)
    return list(drawn[0].axes[0].lines)


def test_a_curve_goes_over_all_loads_where_a_pod_is_several_per_cent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = tuple(TracePod(f"p-{milli}", PodKind(100, 100, 1, milli)) for milli in (300, 700, 1000))
    small = replace(SMALL, nodes=(NodeShape("node", 8000, 8000, 3, "T4"),), pods=pods)
    outcomes = [run_inflation(replace(small, seed=seed)) for seed in range(10)]
    (line,) = lines_of(monkeypatch, tmp_path, outcomes)
    loads = line.get_xdata().tolist()
    assert loads == list(range(60, loads[-1] + 1))
    assert 100 < loads[-1] <= 130
    # The mean over seeds of the allocation before the last pod.
    held = [max(load for load in outcome.allocation_percent if load <= 100) for outcome in outcomes]
    mean = sum(o.allocation_percent[load] for o, load in zip(outcomes, held, strict=True)) / 10
    assert line.get_ydata()[loads.index(100)] == pytest.approx(mean)


def test_a_load_that_ends_early_has_its_curve_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (line,) = lines_of(monkeypatch, tmp_path, [run_inflation(replace(SMALL, load=0.4))])
    loads = line.get_xdata().tolist()
    assert loads == list(range(loads[-1] + 1))
    assert 30 < loads[-1] <= 40


def test_churn_has_no_load_that_grows(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = write_plots(tmp_path, [run_churn(replace(SMALL, measured=0.5))])
    assert [path.name for path in written] == ["small-cluster.png"]


def test_a_missing_matplotlib_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SimulationError, match=r"pip install 'scheduler-ext\[bench\]'"):
        write_plots(tmp_path, [run_inflation(replace(SMALL, load=0.2))])


def test_a_picture_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "small-cluster.png").mkdir()
    with pytest.raises(SimulationError, match=r"/small-cluster\.png: cannot be written: Is a directory"):
        write_plots(tmp_path, [run_churn(replace(SMALL, measured=0.5))])


def test_a_read_only_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SimulationError, match=r"file/plots: cannot be written"):
        write_plots(tmp_path / "file" / "plots", [])
