"""The golden answer of `cost`."""

from __future__ import annotations

from pathlib import Path

from scheduler_ext.main import main
from tests.cli.commands import Written
from tests.cli.golden_answers import FILE, answers


def test_the_answer_is_the_golden_one(cluster: Path, written: Written) -> None:
    found, golden = answers(__file__, "cost", FILE, cluster, written)
    if "idle" not in main.commands:
        for form in ("table", "wide"):
            golden[form] = [line.partition("; `idle` ")[0] for line in golden[form]]
    assert found == golden
