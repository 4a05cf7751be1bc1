"""The pictures of outcomes."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.churn import run_churn
from scheduler_ext.sim.inflation import run_inflation
from scheduler_ext.sim.plots import write_plots
from tests.sim.test_protocols import SMALL

PNG = b"\x89PNG"


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


def test_churn_has_no_load_that_grows(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = write_plots(tmp_path, [run_churn(replace(SMALL, measured=0.5))])
    assert [path.name for path in written] == ["small-cluster.png"]


def test_a_missing_matplotlib_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SimulationError, match=r"pip install 'scheduler-ext\[bench\]'"):
        write_plots(tmp_path, [run_inflation(replace(SMALL, load=0.2))])


def test_a_picture_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "small-cluster.png").mkdir()
    with pytest.raises(SimulationError, match=r"/small-cluster\.png: cannot be written: Is a directory"):
        write_plots(tmp_path, [run_churn(replace(SMALL, measured=0.5))])


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SimulationError, match=r"file/plots: cannot be written"):
        write_plots(tmp_path / "file" / "plots", [])
