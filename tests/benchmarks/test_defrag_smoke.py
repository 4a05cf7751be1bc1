"""benchmarks.defrag, with few clusters."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import defrag

pytestmark = pytest.mark.process


def test_it_reports_small_and_large_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    monkeypatch.setattr(sys, "argv", ["defrag", "--smoke", "--json", str(path)])
    defrag.main()
    report = json.loads(path.read_text())
    assert report["kind"] == "DefragmentationReport"
    assert report["small"]["clusters"] == 3
    assert report["small"]["movesToFewest"] >= 1.0
    rows = {row["waiting"]: row for row in report["large"]["plans"]}
    assert rows.keys() == {name for name, _ in defrag.WAITING}
    # The cluster lost pods of one GPU only, so that a pod of eight waits.
    assert rows["8 GPUs"]["moves"] > 0
    printed = capsys.readouterr().out
    assert "3 small clusters: " in printed
    assert all(name in printed for name in rows)
