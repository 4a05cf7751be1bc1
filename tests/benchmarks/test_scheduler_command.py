"""Refusals of the scheduler suite's command before it starts anything, and its handling of errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.scheduler import __main__ as command
from benchmarks.scheduler.block import Block
from benchmarks.scheduler.exposition import Histogram
from tests.e2e.cluster.binaries import Binaries


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        pytest.param(["--nodes", "5,x"], ["--nodes", "must be whole numbers"], id="a size that is no number"),
        pytest.param(["--nodes", "0"], ["--nodes", "must lie between 1 and"], id="a size of zero"),
        pytest.param(
            ["--contenders", "ours,theirs"],
            ["--contenders", "must be some of none,noop-100,noop-all,ours,ours-all"],
            id="an unknown contender",
        ),
        pytest.param(
            ["--nodes", "5000,10", "--pods", "65"],
            ["--pods 65", "17 more", "80 GPUs of 10 nodes", "fewer pods or more nodes"],
            id="more pods than the smallest cluster has GPUs",
        ),
        pytest.param(["--rounds", "0"], ["--rounds"], id="no round at all"),
    ],
)
def test_wrong_usage_exits_2_and_names_the_option(arguments: list[str], messages: list[str]) -> None:
    done = CliRunner().invoke(command.main, arguments)
    assert done.exit_code == 2
    for message in messages:
        assert message in done.stderr.replace("\n", " ")


def test_binaries_that_cannot_be_had_are_one_line_with_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    done = CliRunner().invoke(command.main, ["--smoke"])
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: KUBEBUILDER_ASSETS={tmp_path} holds none of")


@pytest.mark.parametrize(
    ("errors", "exit_code"),
    [
        pytest.param(0, 0, id="slow but right exits 0"),
        pytest.param(4, 1, id="errors exit 1 after the tables"),
    ],
)
def test_the_exit_code_says_whether_there_were_errors(
    errors: int, exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Block("ours", 5000, 0, 10, 100.0, Histogram(90.0, 10, ()), errors=errors, messages=("why",))
    fast = Block("noop-100", 5000, 0, 10, 1.0, Histogram(0.1, 10, ()))
    true = Path("/bin/true")
    monkeypatch.setattr(command, "find_binaries", lambda: Binaries(true, true, true, true, true))
    monkeypatch.setattr(command, "_measure", lambda settings, binaries: [fast, slow])
    done = CliRunner().invoke(command.main, [])
    assert done.exit_code == exit_code
    assert "MISSED" in done.stdout
    assert ("4 errors" in done.stderr) == bool(errors)
