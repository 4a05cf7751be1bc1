"""simulate trace and simulate cluster with gangs: options, refused usage, and what they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from scheduler_ext.sim.openb import POD_COLUMNS
from tests.cli.commands import WHOLE, Written, run
from tests.kube_objects import Json, pod
from tests.pages import ROOT, blocks
from tests.sim.commands.test_simulate_trace import report_of, simulate


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--gangs 50", "no pod leaves in inflation; take --protocol churn"),
        ("--gangs 50 --protocol churn", "--load 1.3 ever more of them; give a load below 1"),
        ("--start alone", "--start: is about gangs; give --gangs too"),
        ("--patience 2", "--patience: is about gangs"),
        ("--gangs some", "give the part of the demand in per cent, or trace"),
        ("--gangs 50 --start later", "later: unknown; known are alone"),
    ],
)
def test_usage(arguments: str, told: str) -> None:
    result = simulate(*arguments.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in " ".join(result.stderr.split())


FEW = ("--policy", "best-fit", "--ties", "first", "--seeds", "42-43", "--lifetimes", "3")


@pytest.mark.process
@pytest.mark.release
def test_the_command_of_the_page_on_gangs_gives_the_rows_of_its_table() -> None:
    page = (ROOT / "docs" / "features" / "sim" / "simulate-gangs.md").read_text()
    (command,) = blocks(page, "sh")
    result = run(*command.split()[1:], "--generate", "4", *FEW)
    assert (result.exit_code, result.stderr) == (0, "")
    means, waits, *_ = result.stdout.split("\n\n")
    header, *rows = means.splitlines()
    assert all(title in header for title in ("USEFUL %", "PARTIAL GANGS %", "LONGEST WAIT"))
    shown = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")][:3]
    assert [row.split()[3] for row in rows] == shown == ["alone", "together", "timed"]
    title, header, *rows = waits.splitlines()
    assert title == "Wait in mean lifetimes, median / 95th percentile, by the number of pods of a job:"
    assert header.split()[:4] == ["TRACE", "POLICY", "START", "single"]
    assert len(rows) == 3
    assert "START: the pods of a job start alone" in result.stdout


@pytest.mark.process
def test_gangs_of_the_trace_itself(traces: tuple[Path, Path]) -> None:
    nodes, pods = traces
    names = ",".join(POD_COLUMNS)
    lines = [f"p{number},1000,1000,1,1000,{'team' if number < 3 else ''}" for number in range(5)]
    pods.write_text("\n".join([f"{names},gang", *lines]) + "\n", encoding="utf-8")
    asked = ("--nodes", nodes, "--pods", pods, "--protocol", "churn", "--load", "0.5")
    report = report_of(simulate(*asked, *FEW, "--gangs", "trace", "--start", "together", "-o", "json"))
    assert all(set(run["jobs"]) == {"single", "3-4"} for run in report["runs"])


def test_gangs_have_a_column_and_their_nearest_miss(cluster: Path, written: Written) -> None:
    def member(gang: str, number: int, size: int) -> Json:
        names = {"gpu.scheduler-ext.io/gang": gang, "gpu.scheduler-ext.io/gang-size": str(size)}
        return pod(f"{gang}-{number}", {WHOLE: "1"}, annotations=names, schedulerName="gpu-scheduler")

    large = [member("large", number, 40) for number in range(40)]
    pods = written("pods.yaml", yaml.safe_dump_all((member("pair", 0, 2), *large, member("pair", 1, 2))))
    result = run("simulate", "cluster", "--cluster", cluster, "--pods", pods, "-o", "wide")
    assert (result.exit_code, result.stderr) == (3, "")
    lines = result.stdout.splitlines()
    assert lines[:2] == ["2 of 42 pods fit", "1 of 2 gangs fit"]
    (row,) = (line for line in lines if line.startswith("default/large-7 "))
    assert re.search(r"\blarge +none +Insufficient .* \d+ of 40 members fit; no node for \d+ × nvidia", row)
