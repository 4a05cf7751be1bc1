"""scheduler-ext simulate trace: its forms, its exit codes, and refused input."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from scheduler_ext.sim.commands import options
from scheduler_ext.sim.commands.results import report_text
from scheduler_ext.sim.openb import POD_COLUMNS
from scheduler_ext.sim.policies import POLICIES
from scheduler_ext.sim.simulation_report import Run
from scheduler_ext.wire.config import API_VERSION as CONFIG_VERSION
from tests.cli.commands import error_of, run

pytestmark = pytest.mark.process

SMALL = ("--generate", "10", "--policy", "fgd,random", "--seeds", "42-43")


def simulate(*args: str | Path) -> Result:
    return run("simulate", "trace", *args)


def report_of(result: Result) -> dict[str, Any]:
    assert (result.exit_code, result.stderr) == (0, "")
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def test_table() -> None:
    result = simulate(*SMALL)
    assert (result.exit_code, result.stderr) == (0, "")
    means, refused, legend = result.stdout.split("\n\n")
    assert legend.splitlines() == [
        "Each value is a mean over the seeds, ± its standard error.",
        "TIES: the choice among equally good nodes, the first one or a random one.",
        "WHOLE NODES FREE: nodes on which no pod holds a GPU.",
        "ALLOCATED $/H: the value of the allocated GPUs per hour, in US dollars.",
    ]
    header, *rows = means.splitlines()
    assert header.split("   ")[0] == "TRACE"
    assert "ALLOCATED % AT 130" in header
    assert "SLICE" not in header
    assert [row.split()[:4] for row in rows] == [
        ["generated", "fgd", "first", "2"],
        ["generated", "random", "random", "2"],
    ]
    report = report_of(simulate(*SMALL, "-o", "json"))
    for row, mean in zip(rows, report["summary"], strict=True):
        figure = mean["allocationPercent"]["130"], mean["standardError"]["allocationPercent"]["130"]
        assert "{:.2f}±{:.2f}".format(*figure) in row
    told, header, *rows = refused.splitlines()
    assert told == "Rejected demand in per cent of all demand, by class of pods:"
    assert header.split()[:2] == ["TRACE", "POLICY"]
    assert [row.split()[1] for row in rows] == ["fgd", "random"]


def test_runs_and_means_show_their_ties() -> None:
    ties = {"default": "first", "fgd": "first", "random": "random"}
    few = ("--generate", "5", "--policy", ",".join(ties), "--seeds", "42", "--ties", "first")
    report = report_of(simulate(*few, "-o", "json"))
    for found in (report["runs"], report["summary"]):
        assert {each["policy"]: each["ties"] for each in found} == ties


def test_csv_in_a_file(tmp_path: Path) -> None:
    result = simulate(*SMALL, "-o", "csv", "--out", tmp_path / "runs.csv")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "runs.csv").read_text(encoding="utf-8"))))
    assert [row["seed"] for row in rows] == ["42", "43", "42", "43"]
    assert float(rows[0]["allocationPercent130"]) > 50


def test_a_report_that_cannot_be_written_whole_leaves_the_one_before(tmp_path: Path) -> None:
    out = tmp_path / "runs.json"
    out.write_text("the one before", encoding="utf-8")
    arguments = ["simulate", "trace", *SMALL, "-o", "json", "--out", str(out)]
    # A file of one block is too small for the device.
    limited = ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", sys.executable, "-m", "scheduler_ext", *arguments]
    done = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("runs.json: cannot be written: File too large\n")
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {
        "runs.json": "the one before"
    }


def test_a_report_keeps_the_rights_and_the_link_of_the_one_before(tmp_path: Path) -> None:
    before, link = tmp_path / "before.json", tmp_path / "link.json"
    before.write_text("before", encoding="utf-8")
    before.chmod(0o640)
    link.symlink_to(before)
    assert simulate(*SMALL, "-o", "json", "--out", link).exit_code == 0
    assert link.is_symlink()
    assert json.loads(before.read_text(encoding="utf-8"))["runs"]
    assert before.stat().st_mode & 0o777 == 0o640


def test_a_sample_of_the_nodes() -> None:
    table = simulate(*SMALL, "--sample", "0").stdout
    assert all(name in table for name in ("FALSE REFUSALS", "TRIES/POD", "MOST TRIES"))
    assert "FALSE REFUSALS" not in simulate(*SMALL).stdout
    by_model = ("--family", "named", "--generate", "150", "--seeds", "42", "--sample", "5", "--load", "0.5")
    refusals = [
        report_of(simulate(*by_model, *more, "-o", "json"))["runs"][0]["falseRefusals"]
        for more in ([], ["--node-order", "model"], ["--node-order", "model", "--model-affinity"])
    ]
    assert refusals[1] > 0
    assert refusals[0] == refusals[2] == 0


def test_plots(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = simulate(*SMALL, "--png", tmp_path / "plots")
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(list((tmp_path / "plots").glob("generated-*.png"))) == 3


def test_the_report_is_there_whatever_hinders_the_plots(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "generated-cluster.png").mkdir()
    result = simulate(*SMALL, "-o", "json", "--out", tmp_path / "runs.json", "--png", tmp_path)
    assert error_of(result) == f"{tmp_path / 'generated-cluster.png'}: cannot be written: Is a directory"
    assert len(json.loads((tmp_path / "runs.json").read_text(encoding="utf-8"))["runs"]) == 4


def test_a_missing_matplotlib_is_reported_before_any_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "run_all", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    told = error_of(simulate(*SMALL, "--png", tmp_path / "plots"))
    assert told == "plots: matplotlib is not installed; pip install 'scheduler-ext[bench]'"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--policy fgd2", "fgd2: unknown; known are best-fit"),
        ("--seeds 9-1", "9-1: ends before it begins"),
        ("--seeds 1,x", "'x' is no seed"),
        ("--target first:0", "write trace, online"),
        ("--intree Fit=1", "known are NodeResourcesFit"),
        ("--intree NodeResourcesFit", "=WEIGHT"),
        ("--nodes n.csv", "--nodes and --pods come together"),
        ("--priorities qos", "take --protocol churn"),
        ("--lifetimes 5", "--lifetimes: no pod leaves in inflation"),
        ("--jobs 0", "'--jobs': 0 runs at a time"),
        ("--policy fgd,,random", "has an empty name"),
        ("--load nan", "'--load': nan is no finite number"),
        ("--nodes n.csv --pods p.csv --write d", "--write: is for generated nodes and pods"),
        (
            "--nodes n.csv --pods p.csv --generator-seed 0",
            "--generator-seed: is for generated nodes and pods",
        ),
        ("--load 0", "--load"),
        ("--generator-seed=-1", "--generator-seed"),
        ("--out x", "--out: a table is for a terminal"),
        ("--dump d --nodes n --pods p", "--dump: has nodes and pods"),
        ("--dump d --generate 9", "--generate: is for generated"),
        ("--format philly", "--format: is that of --nodes and --pods"),
        ("--dump d --format openb", "--format: is that of"),
        ("--node-order model", "--node-order: is about a sample of the nodes; give --sample below 100 too"),
        ("--model-affinity", "--model-affinity: is about a sample of the nodes"),
    ],
)
def test_usage(arguments: str, told: str) -> None:
    result = simulate(*arguments.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in " ".join(result.stderr.split())


def test_pods_of_models_that_no_node_has_are_rejected_and_reported(
    traces: tuple[Path, Path], tmp_path: Path
) -> None:
    nodes, _ = traces
    strangers = "".join(f"s-{i},1,1,8,1000,K80|\x1b[2J,\n" for i in range(2))
    pods = tmp_path / "elsewhere.csv"
    pods.write_text(f"{','.join(POD_COLUMNS)},gpu_spec,qos\n{strangers}p,1,1,1,500,,\n", encoding="utf-8")
    files = ("--nodes", nodes, "--pods", pods, "--seeds", "1-2", "-o", "json")
    result = simulate("--policy", ",".join(POLICIES), *files)
    assert result.exit_code == 0
    asked, end = "first: \\x1b[2J or K80", "they count as rejected\n"
    assert result.stderr == f"Note: elsewhere: no node has a model that 2 pods request ({asked}); {end}"
    for found in json.loads(result.stdout)["runs"]:
        assert set(found["rejectedByClass"]) == {"8-gpu-constrained"}
        assert found["rejectedByClass"]["8-gpu-constrained"] > 0
        assert found["allocatedMilli"] == found["arrivedMilli"] - found["rejectedMilli"] > 0


@pytest.mark.parametrize(
    ("option", "told"),
    [
        pytest.param(("--out", "no/f.json"), "No such file or directory", id="no folder for the report"),
        pytest.param(("--out", "."), "Is a directory", id="a folder for the report"),
        pytest.param(("--png", "file/plots"), "Not a directory", id="a file for the plots' folder"),
        pytest.param(("--write", "file"), "Not a directory", id="a file for the CSVs' folder"),
    ],
)
def test_an_unwritable_output_is_reported_before_any_run(
    option: tuple[str, str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "run_all", None)
    (tmp_path / "file").write_text("", encoding="utf-8")
    name, target = option[0], tmp_path / option[1]
    assert error_of(simulate(*SMALL, "-o", "json", name, target)) == (
        f"{name} {target}: cannot be written: {told}"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_report_without_rights_is_refused_before_any_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "run_all", None)
    # The user of the tests may have the right to write anywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    result = simulate(*SMALL, "-o", "json", "--out", tmp_path / "f.json")
    assert error_of(result).endswith("f.json: cannot be written: Permission denied")


def test_generated_files_are_written_and_simulated_alike(tmp_path: Path) -> None:
    seeded = ("--policy", "fgd", "--seeds", "42", "-o", "json", "--generate", "10", "--generator-seed")

    def figures(*args: str | Path) -> Any:
        (only,) = report_of(simulate(*args))["runs"]
        return only["trace"], only["allocationPercent"], only["arrivedMilli"]

    made_up = figures(*seeded, "7", "--write", tmp_path / "new")
    files = ("--nodes", tmp_path / "new" / "nodes.csv", "--pods", tmp_path / "new" / "generated.csv")
    assert figures(*files, "--policy", "fgd", "--seeds", "42", "-o", "json") == made_up
    assert figures(*seeded, "7") == made_up
    assert figures(*seeded, "8") != made_up
    assert figures(*seeded, "0") == figures(*seeded[:-1])


def test_a_configuration_is_the_default_policy_s_alone(tmp_path: Path) -> None:
    def figures(**weights: float) -> dict[str, Any]:
        text = {"apiVersion": CONFIG_VERSION, "kind": "ExtenderConfiguration", "score": {"weights": weights}}
        (tmp_path / "c.yaml").write_text(json.dumps(text), encoding="utf-8")
        forty = ("--generate", "40", "--seeds", "42", "--policy", "default,fgd")
        runs = report_of(simulate(*forty, "-o", "json", "--config", tmp_path / "c.yaml"))["runs"]
        return {run["policy"]: (run["allocationPercent"], run["fragmentationPercentAt90"]) for run in runs}

    shipped = figures()
    assert figures(**{"model-preference": 9}) == shipped, "the order of a trace's models is none"
    others = figures(**{"residual-value": 0, "fragmentation": 0})
    assert others["default"] != shipped["default"]
    assert others["fgd"] == shipped["fgd"]


def test_a_figure_that_json_has_not_is_never_written() -> None:
    run_of_nan = Run(
        trace="t", policy="p", seed=1, arrived_milli=0, allocated_milli=0, rejected_milli=0,
        decisions_per_second=math.nan, p99_ms=0.0,
    )  # fmt: skip
    with pytest.raises(ValueError, match="not JSON compliant"):
        report_text([run_of_nan], "json")
