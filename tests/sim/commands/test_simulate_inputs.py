"""scheduler-ext simulate trace on a dump of a cluster and on Microsoft's trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import CONFIGURED, WHOLE, Written, error_of, run
from tests.kube_objects import gpu, gpu_node, inventory, node, pod
from tests.sim.test_philly import attempt, files, job

TRACE = ("simulate", "trace", "--seeds", "1-2", "--policy", "default,fgd")


@pytest.fixture
def dump(written: Written) -> Path:
    objects = [
        gpu_node("n", [gpu(0), gpu(1), gpu(2), gpu(3)]),
        node("n", {WHOLE: "4"}),
        pod("held", {WHOLE: "1"}, on="n"),
        pod("waits", {WHOLE: "2"}),
    ]
    return written("mine.json", inventory(*objects))


def runs_of(*args: str | Path) -> tuple[list[dict[str, Any]], str]:
    """The runs of a report, and the notes."""
    result = run(*TRACE, "-o", "json", *args)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["runs"], result.stderr


def test_a_dump_is_a_trace(dump: Path) -> None:
    runs, notes = runs_of("--dump", dump)
    assert [(each["trace"], each["policy"], each["seed"]) for each in runs] == [
        ("mine", policy, seed) for policy in ("default", "fgd") for seed in (1, 2)
    ]
    # All four GPUs are free at the start, and the pods have one or two.
    assert {each["allocatedMilli"] for each in runs} <= {3000, 4000}
    assert {name for each in runs for name in each["rejectedByClass"]} <= {"1-gpu", "2-gpu"}
    assert notes == ""


def test_a_dump_with_more_than_the_simulation_has(dump: Path) -> None:
    objects = json.loads(dump.read_bytes())["items"]
    objects += [pod("mig", {"nvidia.com/mig-1g.10gb": "1"}), node("m", {WHOLE: "1"}, unschedulable=True)]
    dump.write_bytes(inventory(*objects))
    _, notes = runs_of("--dump", dump)
    assert notes == "Note: 1 node is left out: cordoned\nNote: 1 pod is left out: MIG instances\n"


def test_a_dump_takes_the_configuration_s_names_of_resources(dump: Path, written: Written) -> None:
    config = written("config.json", CONFIGURED | {"resources": {"wholeGpu": ["example.com/gpu"]}})
    message = error_of(run(*TRACE, "--dump", dump, "--config", config))
    assert message.startswith(f"{dump}: no node has a GPU that can be simulated")


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        pytest.param([pod("p", {WHOLE: "1"})], "no Node and no GPUNode in it", id="no nodes"),
        pytest.param([node("cpu-1")], "no node has a GPU that can be simulated", id="no GPUs"),
        pytest.param(
            [gpu_node("n", [gpu(0)])], "no pod in it requests GPUs that can be simulated", id="no pods"
        ),
    ],
)
def test_a_dump_that_cannot_be_used(written: Written, objects: list[Any], told: str) -> None:
    path = written("dump.json", inventory(*objects))
    assert error_of(run(*TRACE, "--dump", path)).startswith(f"{path}: {told}")


def test_microsoft_s_trace(tmp_path: Path) -> None:
    machines, jobs = files(tmp_path, [job("a", attempt(2, 2)), job("b", attempt(1)), job("c")])
    runs, notes = runs_of("--format", "philly", "--nodes", machines, "--pods", jobs)
    assert {each["trace"] for each in runs} == {"cluster_job_log"}
    assert all(each["allocatedMilli"] > 5000 for each in runs)
    assert {name for each in runs for name in each["rejectedByClass"]} <= {"1-gpu", "2-gpu"}
    assert notes == "Note: cluster_job_log: 1 of 3 jobs have no recorded GPUs; they are left out\n"
