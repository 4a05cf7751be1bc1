"""The scheduler benchmark on a real control plane of its own: it measures, and it reports errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.scheduler.bursts.contenders import CONTENDERS as BURST_CONTENDERS
from benchmarks.scheduler.contenders import CONTENDERS

pytestmark = pytest.mark.release

REPOSITORY = Path(__file__).parents[2]


def _benchmark(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.scheduler", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_the_smoke_run_measures_every_contender(tmp_path: Path) -> None:
    done = _benchmark("--smoke", "--json", "report.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [row["contender"] for row in report["rows"]] == list(CONTENDERS)
    for row in report["rows"]:
        assert (row["nodes"], row["rounds"], row["errors"]) == (50, 1, 0)
        assert (row["extenderMs"] is not None) == (row["contender"] in ("ours", "ours-all"))


def test_the_smoke_run_of_bursts_measures_every_contender(tmp_path: Path) -> None:
    report = tmp_path / "a" / "report.json"
    command = [sys.executable, "-m", "benchmarks.scheduler.bursts", "--smoke", "--json", str(report)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text(encoding="utf-8"))
    assert [row["contender"] for row in found["rows"]] == list(BURST_CONTENDERS)
    for row in found["rows"]:
        assert (row["nodes"], row["rounds"], row["pods"], row["unbound"]) == (20, 1, 100, 0)
