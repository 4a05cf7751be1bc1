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
from benchmarks.scheduler.suite import Settings, measure
from tests.e2e.cluster.binaries import BUILT, find_binaries
from tests.e2e.cluster.control_plane import running_control_plane

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
    pytest.importorskip("matplotlib", reason="pictures need the bench extra")
    done = _benchmark("--smoke", "--json", "a/report.json", "--png", "a/report.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "a/report.json").read_text(encoding="utf-8"))
    assert (
        report["command"] == "python -m benchmarks.scheduler --smoke --json a/report.json --png a/report.png"
    )
    assert report["scheduler"].startswith("kube-scheduler of Kubernetes v1.")
    assert [row["contender"] for row in report["rows"]] == list(CONTENDERS)
    for row in report["rows"]:
        assert (row["nodes"], row["rounds"], row["errors"]) == (50, 1, 0)
        assert (row["extenderMs"] is not None) == (row["contender"] in ("ours", "ours-all"))
    # They may all be bound before the first reading, but not with every contender.
    counted = [row for row in report["rows"] if row["pods"]]
    assert counted
    assert all(row["podsPerSecond"]["median"] > 0 for row in counted)
    assert all(row["algorithmMeanMs"]["median"] > 0 for row in counted)
    assert report["bounds"] == [], "bounds are about 5000 nodes"
    assert (tmp_path / "a/report.png").read_bytes().startswith(b"\x89PNG")
    table = [line for line in done.stdout.splitlines() if line.split()[:1] == ["50"]]
    assert len(table) == 2 * len(CONTENDERS)
    assert "about 1 min" in done.stderr


def test_a_scheduler_that_does_not_start_ends_the_run_with_its_last_words(tmp_path: Path) -> None:
    """The control plane's own kube-scheduler starts; the configured one does not."""
    real = find_binaries()
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in ("etcd", *BUILT):
        binary = getattr(real, name.replace("-", "_"))
        (assets / name).symlink_to(binary)
    broken = assets / "kube-scheduler"
    broken.unlink()
    refuse = 'case "$*" in *--config=*) echo "no such plugin" >&2; exit 3;; esac'
    broken.write_text(f'#!/bin/sh\n{refuse}\nexec {real.kube_scheduler} "$@"\n')
    broken.chmod(0o755)
    done = _benchmark("--smoke", "--contenders", "none", cwd=tmp_path, KUBEBUILDER_ASSETS=str(assets))
    assert done.returncode == 1
    assert "Error: kube-scheduler (none) exited with 3" in done.stderr
    assert "no such plugin" in done.stderr


def test_pods_without_room_are_counted_as_errors(tmp_path: Path) -> None:
    told: list[str] = []
    settings = Settings(
        nodes=(1,),
        pods=9,
        warm_up=2,
        rounds=1,
        contenders=[CONTENDERS["none"], CONTENDERS["ours"]],
        seed=1,
        patience_s=10,
        note=told.append,
    )
    for folder in ("control-plane", "benchmark"):
        (tmp_path / folder).mkdir()
    with running_control_plane(find_binaries(), tmp_path / "control-plane") as plane:
        blocks = measure(settings, plane, tmp_path / "benchmark")
        assert plane.api.items("/api/v1/pods") == [], "nothing is left behind"
    for block in blocks:
        assert block.errors >= 3
        assert any("attempts ended as unschedulable" in message for message in block.messages)
        assert any("3 of 11 pods were not bound" in message for message in block.messages)
    assert any("3 of 11 pods were not bound" in line for line in told)


def test_the_smoke_run_of_bursts_measures_every_contender(tmp_path: Path) -> None:
    report = tmp_path / "a" / "report.json"
    command = [sys.executable, "-m", "benchmarks.scheduler.bursts", "--smoke", "--json", str(report)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text(encoding="utf-8"))
    assert [row["contender"] for row in found["rows"]] == list(BURST_CONTENDERS)
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
