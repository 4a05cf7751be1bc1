"""`scheduler-ext simulate mig`: report, table, and errors of one line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.commands import run

FAST = ("simulate", "mig", "--gpus", "5", "--arrivals", "200", "--seeds", "42-43")


def test_the_table_has_a_row_per_policy() -> None:
    result = run(*FAST, "--policy", "mfi,first-fit", "--mix", "7g.80gb=.5,1g.10gb=.5")
    means, refused, legend = result.stdout.split("\n\n")
    assert legend.splitlines() == [
        "Each value is a mean over the seeds, ± its standard error.",
        "WHOLE NODES FREE: nodes on which no pod holds a GPU.",
    ]
    header, *rows = means.splitlines()
    assert header.split()[:3] == ["TRACE", "POLICY", "SEEDS"]
    assert [row.split()[:3] for row in rows] == [
        ["7g.80gb=.5,1g.10gb=.5", policy, "2"] for policy in ("mfi", "first-fit")
    ]
    assert all(len(re.findall(r"\d±\d", row)) == 3 for row in rows)
    # The smallest profile nearly always finds room.
    assert "7g.80gb" in refused.splitlines()[1].split()


def test_a_geometry_of_ones_own_and_an_online_target(tmp_path: Path) -> None:
    path = tmp_path / "geometry.json"
    path.write_text('{"grid": 2, "profiles": [{"name": "1g.6gb", "size": 1, "starts": [0, 1]}]}')
    result = run(*FAST, "--geometry", path, "--mix", "1g.6gb=1", "--target", "online", "-o", "json")
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)["runs"][0]["rejectedByClass"]) == {"1g.6gb"}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ("--mix 1g.5gb=1", 1, "1g.5gb is not a profile of this geometry"),
        ("--scheduler tcp://x", 1, "scheduler tcp://x: backend loky runs on"),
        ("--geometry T4", 1, "geometry T4: no such file"),
        ("--seeds 0-99999999", 2, "more than 10000 seeds"),
        ("--policy magic", 2, "magic: unknown; known are best-fit, default, fgd"),
    ],
)
def test_errors(arguments: str, code: int, says: str) -> None:
    result = run(*FAST, *arguments.split())
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        pytest.param("42,7,42", [42, 7], id="each once, in the order given"),
        pytest.param("3-5, 1", [3, 4, 5, 1], id="ranges and single ones"),
    ],
)
def test_seeds(text: str, seeds: list[int]) -> None:
    result = run("simulate", "mig", "--gpus", "1", "--arrivals", "1", "--seeds", text, "-o", "json")
    assert [row["seed"] for row in json.loads(result.stdout)["runs"]] == seeds
