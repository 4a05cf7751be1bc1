"""The benchmark of claims on a real control plane of its own: all pods of a small cluster are settled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.claims import SCHEDULERS
from tests.pages import ROOT

pytestmark = pytest.mark.release


def test_a_small_run_measures_both_schedulers(tmp_path: Path) -> None:
    report_file = tmp_path / "report.json"
    options = ("--nodes=3", "--demand=0.6", "--seeds=1", f"--json={report_file}")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.claims", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(report_file.read_text())["results"]
    assert result["allocatedPercent"].keys() == SCHEDULERS.keys()
    for name in SCHEDULERS:
        assert 0 < result["allocatedPercent"][name] <= min(100.0, result["askedPercent"])
        assert 0 < result["bound"][name] <= result["pods"]
