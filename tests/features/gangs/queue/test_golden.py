"""The golden answer of `queue`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.commands import Written
from tests.cli.golden_answers import LIVE, answers


def test_the_answer_is_the_golden_one(cluster: Path, written: Written) -> None:
    # Its rows have the time that pods have waited.
    found, golden = answers(__file__, "queue", LIVE, cluster, written, tables=False)
    assert found == golden
