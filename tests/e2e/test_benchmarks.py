"""The benchmarks on real control planes of their own: each measures every contender and binds all pods."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.binding import BINDERS
from benchmarks.scheduler.bursts.contenders import CONTENDERS as BURST_CONTENDERS
from benchmarks.scheduler.contenders import CONTENDERS
from tests.kube_objects import Json
from tests.pages import ROOT

pytestmark = pytest.mark.release


def scheduler(report: Json) -> None:
    assert [row["contender"] for row in report["rows"]] == list(CONTENDERS)
    for row in report["rows"]:
        assert (row["nodes"], row["rounds"], row["errors"]) == (50, 1, 0)
        assert (row["extenderMs"] is not None) == CONTENDERS[row["contender"]].is_ours


def bursts(report: Json) -> None:
    assert [row["contender"] for row in report["rows"]] == list(BURST_CONTENDERS)
    for row in report["rows"]:
        assert (row["nodes"], row["rounds"], row["pods"], row["unbound"]) == (20, 1, 100, 0)


def binding(report: Json) -> None:
    assert [row["contender"] for row in report["rows"]] == [each.name for each in BINDERS]
    for row, binder in zip(report["rows"], BINDERS, strict=True):
        assert (row["nodes"], row["rounds"], row["unbound"]) == (50, 1, 0)
        assert (row["bindMeanMs"] is not None) == binder.binds
        assert (row["intentMeanMs"] is not None) == binder.binds


def measured(module: str, *options: str, folder: Path) -> Json:
    """The report of a benchmark."""
    report = folder / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *options, f"--json={report}"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: Json = json.loads(report.read_text())
    return found


@pytest.mark.parametrize(
    ("module", "check"),
    [("scheduler", scheduler), ("scheduler.bursts", bursts), ("binding", binding)],
)
def test_a_small_run_measures_every_contender(
    tmp_path: Path, module: str, check: Callable[[Json], None]
) -> None:
    check(measured(module, "--smoke", folder=tmp_path))
