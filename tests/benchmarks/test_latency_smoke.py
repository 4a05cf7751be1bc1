"""The latency benchmark end to end, mostly on a fake extender: rows complete, wrong answers noticed."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.client import Plan
from benchmarks.cluster import KINDS
from benchmarks.inventory import write_inventory
from benchmarks.latency import Settings, measure_growth, measure_rows
from benchmarks.processes import ProcessError, measure, noop_command, running_server

pytestmark = pytest.mark.process

REPOSITORY = Path(__file__).resolve().parent.parent.parent
ROW_KEYS = {
    "verb",
    "kind",
    "nodes",
    "connections",
    "p50Us",
    "p90Us",
    "p99Us",
    "noopP50Us",
    "ratio",
    "errors",
}


def _fake(dialect: str) -> Callable[[Path], list[str]]:
    def command(inventory: Path) -> list[str]:
        script = [sys.executable, "-m", "tests.benchmarks.fake_extender"]
        return [*script, "--inventory", str(inventory), "--dialect", dialect]

    return command


@pytest.fixture(scope="module")
def noop_url() -> Iterator[str]:
    with running_server(noop_command(), "api") as url:
        yield url


def _settings(dialect: str, **changes: Any) -> Settings:
    chosen: dict[str, Any] = {
        "nodes": (20,),
        "kinds": ("whole",),
        "connections": (1,),
        "rounds": 1,
        "seed": 1,
    }
    return Settings(**{**chosen, **changes}, serve=_fake(dialect), note=lambda _: None)


def test_every_combination_gets_a_complete_row_without_errors(noop_url: str) -> None:
    settings = _settings("exact", nodes=(12, 240), kinds=("whole", "share", "mig"), connections=(1, 5))
    rows = measure_rows(settings, noop_url)
    combinations = [(row.kind, row.nodes, row.connections, row.verb) for row in rows]
    assert combinations == [
        (kind, nodes, connections, verb)
        for kind in ("whole", "share", "mig")
        for nodes in (12, 240)
        for connections in (1, 5)
        for verb in ("filter", "prioritize")
    ]
    for row in rows:
        assert row.errors == 0
        assert row.samples == 12
        assert row.connects == row.connections
        assert row.p50_us is not None
        assert row.noop_p50_us is not None
        assert 0 < row.p50_us <= (row.p90_us or 0) <= (row.p99_us or 0)
        assert row.as_json().keys() == ROW_KEYS
    assert {row.request_names for row in rows if row.verb == "filter"} == {12, 240}
    assert {row.request_names for row in rows if row.verb == "prioritize"} == {6, 100}


@pytest.mark.parametrize("kind", KINDS)
def test_the_real_server_rejects_exactly_the_nodes_without_room(kind: str, noop_url: str) -> None:
    told: list[str] = []
    settings = Settings((48,), (kind,), (1, 8), rounds=1, seed=6, note=told.append)
    rows = measure_rows(settings, noop_url)
    assert [row.errors for row in rows] == [0] * 4, told


@pytest.mark.parametrize(
    ("dialect", "message"),
    [
        pytest.param(
            "lenient", "filter rejected 0 of 20 nodes", id="a filter that rejects too few is an error"
        ),
        pytest.param("failing", "status 500", id="a status other than 200 is an error"),
    ],
)
def test_wrong_answers_are_counted_and_reported(dialect: str, message: str, noop_url: str) -> None:
    told: list[str] = []
    rows = measure_rows(dataclasses.replace(_settings(dialect), note=told.append), noop_url)
    assert rows[0].errors >= 12
    assert any(message in line for line in told)


def test_a_foreign_extender_is_measured_by_its_url(noop_url: str, tmp_path: Path) -> None:
    write_inventory(tmp_path / "inventory.json", "share", 16, seed=1)
    with running_server(_fake("foreign")(tmp_path / "inventory.json"), "api") as url:
        rows = measure_rows(_settings("foreign", kinds=("share",), url=f"{url}/prefix"), noop_url)
    assert [(row.verb, row.errors, row.samples) for row in rows] == [("filter", 0, 12), ("prioritize", 0, 12)]
    assert rows[0].connects > 12, "it closes the connection after every reply, and each reconnect is counted"
    assert rows[1].request_names == 8


def test_growth_varies_names_and_states_apart(noop_url: str) -> None:
    points = measure_growth(_settings("exact", nodes=(40, 80), connections=(8,)), noop_url)
    assert [(point.axis, point.row.nodes, point.distinct_states) for point in points] == [
        ("names", 40, 40),
        ("names", 80, 64),
        ("states", 80, 4),
        ("states", 80, 64),
        ("states", 80, 80),
    ]
    assert sum(point.row.errors for point in points) == 0


def test_an_unreachable_extender_yields_rows_of_errors(noop_url: str) -> None:
    plan = Plan("http://127.0.0.1:1", noop_url, "whole", 4, 1, 1, 1, strict=False)
    measurements = measure(plan)
    assert [measurement.errors for measurement in measurements] == [24, 24]
    assert measurements[0].elapsed_ns == []


def test_a_server_that_does_not_start_is_reported_with_its_last_lines() -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such inventory')"]
    with pytest.raises(ProcessError, match="no such inventory"), running_server(command, "api"):
        pytest.fail("there is no server")


def test_the_command_writes_report_and_picture_and_exits_0(noop_url: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the bench extra")
    write_inventory(tmp_path / "inventory.json", "mig", 20, seed=4)
    with running_server(_fake("exact")(tmp_path / "inventory.json"), "api") as url:
        done = _latency(
            "--url", url, "--noop-url", noop_url, "--nodes", "8,20", "--kinds", "mig", cwd=tmp_path
        )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["kind"] == "LatencyReport"
    assert report["machine"]["cores"] >= 1
    assert report["command"].startswith("python -m benchmarks.latency --rounds 1 ")
    assert len(report["rows"]) == len(report["sizes"]) == 8
    assert all(row.keys() == ROW_KEYS for row in report["rows"])
    assert report["growth"] == []
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
    assert len([line for line in done.stdout.splitlines() if line.startswith(("filter", "prioritize"))]) == 8


def test_the_command_exits_1_when_answers_are_wrong(noop_url: str, tmp_path: Path) -> None:
    write_inventory(tmp_path / "inventory.json", "mig", 20, seed=4)
    with running_server(_fake("failing")(tmp_path / "inventory.json"), "api") as url:
        done = _latency("--url", url, "--noop-url", noop_url, "--nodes", "8", "--kinds", "mig", cwd=tmp_path)
    assert done.returncode == 1
    assert "requests failed or were answered wrongly" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--nodes", "10,x"), "must be whole numbers", id="a size that is no number"),
        pytest.param(("--nodes", "0"), "must lie between 1 and", id="a size of zero"),
        pytest.param(("--kinds", "tpu"), "must be some of whole,share,mig", id="an unknown kind"),
    ],
)
def test_wrong_usage_exits_2_and_names_the_option(
    arguments: tuple[str, str], message: str, tmp_path: Path
) -> None:
    done = _latency(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert arguments[0] in done.stderr
    assert message in done.stderr


def _latency(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    outputs = ["--json", "report.json", "--png", "report.png"]
    script = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); import runpy; "
    script += "runpy.run_module('benchmarks.latency', run_name='__main__', alter_sys=True)"
    rounds = ["--rounds", "1", "--connections", "1,3"]
    return subprocess.run(
        [sys.executable, "-c", script, *rounds, *arguments, *outputs],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
