"""The golden answers of `idle` and `recommend`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Written
from tests.cli.golden_answers import FILE, answers

ASKED = {"idle": FILE, "recommend": ["--min-age", "1h", *FILE]}


@pytest.mark.parametrize("command", ASKED)
def test_the_answer_is_the_golden_one(cluster: Path, written: Written, command: str) -> None:
    found, golden = answers(__file__, command, ASKED[command], cluster, written)
    assert found == golden
