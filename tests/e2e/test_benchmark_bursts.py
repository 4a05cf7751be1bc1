"""The benchmark of bursts on a real control plane of its own: it measures every contender."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.scheduler.bursts.contenders import CONTENDERS

# Its time limits are those of a machine of its own.
pytestmark = pytest.mark.alone

REPOSITORY = Path(__file__).parents[2]


def test_the_smoke_run_measures_every_contender(tmp_path: Path) -> None:
    report = tmp_path / "a" / "report.json"
    command = [sys.executable, "-m", "benchmarks.scheduler.bursts", "--smoke", "--json", str(report)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text(encoding="utf-8"))
    assert [row["contender"] for row in found["rows"]] == list(CONTENDERS)
    for row in found["rows"]:
        assert (row["nodes"], row["rounds"], row["pods"], row["unbound"]) == (20, 1, 100, 0)
        assert row["podsPerSecond"]["median"] > 0
        assert row["cpuMsPerPod"]["kube-apiserver"] > 0
        assert (row["cpuMsPerPod"]["extender"] > 0) == row["contender"].startswith(
            ("noop", "ours", "planned")
        )
    assert len([line for line in done.stdout.splitlines() if line.split()[:1] == ["20"]]) >= 2 * len(
        CONTENDERS
    )
