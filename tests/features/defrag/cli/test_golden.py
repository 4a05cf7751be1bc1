"""The golden answer of `defrag`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.commands import Written
from tests.cli.golden_answers import FILE, answers


def test_the_answer_is_the_golden_one(cluster: Path, written: Written) -> None:
    found, golden = answers(__file__, "defrag", ["--for", "waits", *FILE], cluster, written)
    assert found == golden
