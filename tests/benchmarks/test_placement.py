"""The placement benchmark without its traces, and how it compares."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.placement import __main__ as placement
from benchmarks.placement.__main__ import main
from benchmarks.placement.published import POLICIES, PUBLISHED, VARIANTS
from benchmarks.placement.table import rows_of
from scheduler_ext.sim.generator import generate_nodes, generate_pods
from scheduler_ext.sim.openb import write_nodes, write_pods
from scheduler_ext.sim.simulation_report import Run


def test_published_figures_are_whole() -> None:
    assert len(VARIANTS) == 9
    assert len(PUBLISHED) == 9 * len(POLICIES)
    assert PUBLISHED["default", "fgd"] == {"100": 95.23, "130": 95.39}
    assert PUBLISHED["multigpu40", "random"] == {"100": 85.38, "130": 90.09}
    assert all(each["100"] < each["130"] for each in PUBLISHED.values())


def run_of(policy: str, at_130: float) -> Run:
    return Run(
        trace="default",
        policy=policy,
        seed=42,
        allocation_percent={"100": at_130, "130": at_130},
        arrived_milli=0,
        allocated_milli=0,
        rejected_milli=0,
        decisions_per_second=1.0,
        p99_ms=1.0,
    )


@pytest.mark.parametrize(
    ("policy", "at_130", "agrees"),
    [
        pytest.param("fgd", 95.30, True, id="FGD within 0.15 agrees"),
        pytest.param("fgd", 95.20, False, id="FGD beyond does not"),
        pytest.param("best-fit", 92.70, True, id="another within 0.5 agrees"),
        pytest.param("best-fit", 93.70, False, id="another beyond does not"),
        pytest.param("first-fit", 93.70, None, id="nothing was published of first fit"),
    ],
)
def test_agreement(policy: str, at_130: float, agrees: bool | None) -> None:
    row, mean = rows_of([run_of(policy, at_130)])
    assert row.agrees is agrees
    assert (mean.variant, mean.ours["130"], mean.agrees) == ("mean", at_130, None)


def test_other_ties_are_no_disagreement() -> None:
    row, _ = rows_of([run_of("fgd", 90.0)], as_published=False)
    assert row.agrees is None
    assert row.published["130"] == 95.39


def test_a_folder_of_traces(tmp_path: Path) -> None:
    nodes = generate_nodes(6, seed=1)
    write_nodes(tmp_path / "openb_node_list_gpu_node.csv", nodes)
    for name in ("default", "own"):
        write_pods(tmp_path / f"openb_pod_list_{name}.csv", generate_pods(nodes, seed=1))
    args = ["--traces", str(tmp_path), "--policy", "fgd,first-fit", "--seeds", "1", "--jobs", "1"]
    result = CliRunner().invoke(
        main, [*args, "--json", str(tmp_path / "f.json"), "--csv", str(tmp_path / "f.csv")]
    )
    assert result.exit_code == 0, result.output
    cells = [line.split() for line in result.stdout.splitlines()]
    assert [row[:2] for row in cells[1:7]] == [
        ["default", "fgd"],
        ["default", "first-fit"],
        ["own", "fgd"],
        ["own", "first-fit"],
        ["mean", "fgd"],
        ["mean", "first-fit"],
    ]
    # Only published results have a figure beside them.
    assert cells[1][3:5] == ["95.23", f"{float(cells[1][2]) - 95.23:+.2f}"]
    assert len(cells[2]) < len(cells[1])
    assert len(json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))["runs"]) == 4
    assert len((tmp_path / "f.csv").read_text(encoding="utf-8").splitlines()) == 5


@pytest.mark.parametrize("option", ["--json", "--csv", "--png"])
def test_an_unwritable_output_is_reported_before_any_run(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "run_tasks", None)
    (tmp_path / "file").write_text("", encoding="utf-8")
    target = tmp_path / "file" / "x"
    result = CliRunner().invoke(main, [option, str(target)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"Error: {option} {target}: cannot be written: Not a directory\n"


def test_a_missing_matplotlib_is_reported_before_any_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "run_tasks", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = CliRunner().invoke(main, ["--png", str(tmp_path / "plots")])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: plots: matplotlib is not installed; pip install 'scheduler-ext[bench]'\n"


def test_a_comma_too_much(tmp_path: Path) -> None:
    write_pods(tmp_path / "openb_pod_list_default.csv", [])
    result = CliRunner().invoke(main, ["--traces", str(tmp_path), "--variants", "default,"])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: --variants 'default,' has an empty name; write names with one")


def test_jobs_are_as_in_the_other_simulations() -> None:
    result = CliRunner().invoke(main, ["--jobs", "0"])
    assert result.exit_code == 2
    assert "0 runs at a time; give 1 or more, or -1 for one per core" in result.stderr


def test_a_trace_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--traces", str(tmp_path), "--variants", "cpu400", "--policy", "fgd"])
    assert result.exit_code == 1
    assert "has no openb_pod_list_cpu400.csv; it has no traces" in result.stderr
