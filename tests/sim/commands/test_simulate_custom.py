"""scheduler-ext simulate trace with policies of users."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import error_of, run
from tests.pages import ROOT, blocks

pytestmark = pytest.mark.process

FEW = ("simulate", "trace", "--generate", "10", "--seeds", "42-43")
PAGE = ROOT / "docs" / "features" / "sim" / "write-a-policy.md"
(EXAMPLE,) = blocks(PAGE.read_text(), "python")
BROKEN = EXAMPLE.replace("idle_milli.astype", "idle.astype")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(EXAMPLE, encoding="utf-8")
    return path


def allocated(*args: str | Path) -> dict[str, list[float]]:
    """The allocation of each policy, by seed."""
    result = run(*FEW, *args, "-o", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    found: dict[str, list[float]] = {}
    for each in json.loads(result.stdout)["runs"]:
        found.setdefault(each["policy"], []).append(each["allocationPercent"]["100"])
    return found


@pytest.mark.release
def test_the_example_of_the_page_runs_as_it_stands(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (command,) = blocks(PAGE.read_text(), "sh")
    monkeypatch.chdir(mine.parent)
    result = run(*command.split()[1:], *FEW[2:])
    assert (result.exit_code, result.stderr) == (0, "")
    rows = result.stdout.split("\n\n")[0].splitlines()[1:]
    assert [row.split()[1] for row in rows] == ["default", "fgd", "mine"]


@pytest.mark.release
def test_the_error_of_the_page_is_that_of_its_example(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine.write_text(BROKEN, encoding="utf-8")
    monkeypatch.chdir(mine.parent)
    message = error_of(run(*FEW, "--policy", "./mine.py"))
    assert f"`Error: {message}`" in " ".join(PAGE.read_text().split())


def test_processes_give_the_same_results(mine: Path) -> None:
    policies = ("--policy", f"{mine},best-fit")
    assert allocated(*policies, "--jobs", "2") == allocated(*policies)


def test_an_exception_of_a_policy_in_another_process_is_one_line(mine: Path) -> None:
    mine.write_text(BROKEN, encoding="utf-8")
    program = [sys.executable, "-m", "scheduler_ext", *FEW, "--policy", f"fgd,{mine}", "--jobs", "2"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: {mine}, line 10: NameError: name 'idle' is not defined\n"


def test_two_policies_of_one_name(mine: Path) -> None:
    other = mine.parent / "other" / "mine.py"
    other.parent.mkdir()
    other.write_text(EXAMPLE, encoding="utf-8")
    message = error_of(run(*FEW, "--policy", f"{mine},{other}"))
    assert message == f"{other}: another policy is named mine; give one of them another name"
