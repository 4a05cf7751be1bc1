"""The golden answer of `cost`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.commands import Written
from tests.cli.golden_answers import FILE, answers


def test_the_answer_is_the_golden_one(cluster: Path, written: Written) -> None:
    found, golden = answers(__file__, "cost", FILE, cluster, written)
    assert found == golden
