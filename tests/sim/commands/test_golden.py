"""The golden answers of simulations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Written
from tests.cli.golden_answers import answers

ASKED = {
    "simulate cluster": ["--pods", "PODS", "--cluster", "CLUSTER"],
    "simulate trace": ["--generate", "2", "--seeds", "1", "--jobs", "1"],
    "simulate mig": ["--gpus", "2", "--arrivals", "20", "--seeds", "1"],
}


@pytest.mark.parametrize("command", ASKED)
def test_the_answer_is_the_golden_one(cluster: Path, written: Written, command: str) -> None:
    found, golden = answers(__file__, command, ASKED[command], cluster, written)
    assert found == golden
