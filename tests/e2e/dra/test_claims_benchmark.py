"""The benchmark of claims on a real control plane: each scheduler hands out GPUs as a trace asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.claims import SCHEDULERS
from tests.e2e.test_benchmarks import measured

pytestmark = pytest.mark.release


def test_a_small_run_measures_every_scheduler(tmp_path: Path) -> None:
    report = measured("claims", "--nodes=3", "--demand=0.6", "--seeds=1", folder=tmp_path)
    (result,) = report["results"]
    assert result["allocatedPercent"].keys() == SCHEDULERS.keys()
    for name in SCHEDULERS:
        assert 0 < result["allocatedPercent"][name] <= min(100.0, result["askedPercent"])
        assert 0 < result["bound"][name] <= result["pods"]
