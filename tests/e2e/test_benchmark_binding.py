"""The benchmark of binding on a real control plane of its own: it measures, and all pods are bound."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.binding import BINDERS
from tests.pages import ROOT

pytestmark = pytest.mark.release


def test_the_smoke_run_measures_every_binder(tmp_path: Path) -> None:
    report_file = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.binding", "--smoke", "--json", str(report_file)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(report_file.read_text())
    assert [row["contender"] for row in report["rows"]] == [each.name for each in BINDERS]
    for row, binder in zip(report["rows"], BINDERS, strict=True):
        assert (row["nodes"], row["rounds"], row["unbound"]) == (50, 1, 0)
        assert (row["bindMeanMs"] is not None) == binder.binds
        assert (row["intentMeanMs"] is not None) == binder.binds
