"""Microsoft's Philly trace: its content, and the names in errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler_ext.sim.philly import read_philly
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import TraceNode
from tests.sim.small import refusal

MACHINES = "machineId, number of GPUs, single GPU mem\nm1,8, 24GB\nm2,2, 12GB\nm3,0,\n"


def attempt(*gpus: int) -> dict[str, Any]:
    """An attempt on several servers, with so many GPUs on each."""
    return {
        "start_time": "2017-10-07 01:12:09",
        "end_time": None,
        "detail": [
            {"ip": f"m{server}", "gpus": [f"gpu{index}" for index in range(count)]}
            for server, count in enumerate(gpus)
        ],
    }


def job(name: str, *attempts: dict[str, Any]) -> dict[str, Any]:
    return {
        "status": "Pass",
        "vc": "v",
        "jobid": name,
        "attempts": list(attempts),
        "submitted_time": "2017-10-07 01:11:39",
        "user": "u",
    }


def files(folder: Path, jobs: Any, machines: str = MACHINES) -> tuple[Path, Path]:
    """The machines and the jobs, which may be a text."""
    paths = folder / "cluster_machine_list", folder / "cluster_job_log"
    paths[0].write_text(machines, encoding="utf-8")
    paths[1].write_text(jobs if isinstance(jobs, str) else json.dumps(jobs), encoding="utf-8")
    return paths


def test_machines_are_nodes_without_cpu(tmp_path: Path) -> None:
    machines, jobs = files(tmp_path, [job("j", attempt(1))])
    nodes, traces, notes = read_philly(machines, [jobs])
    assert nodes == (
        TraceNode("m1", 0, 0, 8, "24GB"),
        TraceNode("m2", 0, 0, 2, "12GB"),
        TraceNode("m3", 0, 0, 0, ""),
    )
    assert (list(traces), notes) == (["cluster_job_log"], [])


@pytest.mark.parametrize(
    ("attempts", "pods"),
    [
        pytest.param([attempt(8)], {"j": 8}, id="a job on one server is a pod"),
        pytest.param(
            [attempt(8, 8, 2)], {"j-0": 8, "j-1": 8, "j-2": 2}, id="a job on three servers is three"
        ),
        pytest.param([attempt(2), attempt(4)], {"j": 2}, id="the first attempt counts"),
    ],
)
def test_a_job(tmp_path: Path, attempts: list[dict[str, Any]], pods: dict[str, int]) -> None:
    machines, jobs = files(tmp_path, [job("j", *attempts)])
    _, traces, notes = read_philly(machines, [jobs])
    found = traces["cluster_job_log"]
    assert {pod.name: pod.kind for pod in found} == {
        name: PodKind(0, 0, gpus, 1000) for name, gpus in pods.items()
    }
    assert notes == []


def test_jobs_without_gpus_are_left_out_and_noted(tmp_path: Path) -> None:
    machines, jobs = files(tmp_path, [job("never"), job("lost", attempt()), job("j", attempt(1))])
    _, traces, notes = read_philly(machines, [jobs])
    assert [pod.name for pod in traces["cluster_job_log"]] == ["j"]
    assert notes == ["cluster_job_log: 2 of 3 jobs have no recorded GPUs; they are left out"]


@pytest.mark.parametrize(
    ("jobs", "told"),
    [
        pytest.param("[\n{\n", ", line 1: is no JSON: Input data was truncated", id="a truncated file"),
        pytest.param(
            [job("j", {"detail": [{"gpus": 8}]})],
            ", job [0].attempts[0].detail[0].gpus: Expected `array`, got `int`",
            id="a number of GPUs",
        ),
        pytest.param(
            [job("j", attempt(65))], ", job [0] j: 65 GPUs on one server; at most 64", id="too many GPUs"
        ),
        pytest.param([job("j")], ": no job has an attempt with GPUs", id="no GPUs at all"),
        pytest.param('[{"x": ' + "[" * 5000, ": is no JSON: nested too deeply", id="deep nesting"),
    ],
)
def test_jobs_that_cannot_be(tmp_path: Path, jobs: Any, told: str) -> None:
    machines, path = files(tmp_path, jobs)
    assert refusal(lambda: read_philly(machines, [path])).startswith(f"{path}{told}")


@pytest.mark.parametrize(
    ("machines", "told"),
    [
        pytest.param("machineId,single GPU mem\nm,1\n", ", line 1: no column number of GPUs", id="a column"),
        pytest.param(
            MACHINES.replace("m2", "m1"), ", line 3, machineId: 'm1' names another", id="a name twice"
        ),
        pytest.param(
            "machineId,number of GPUs,single GPU mem\nm,0,\n", ": no machine has a GPU", id="no GPUs at all"
        ),
    ],
)
def test_machines_that_cannot_be(tmp_path: Path, machines: str, told: str) -> None:
    path, jobs = files(tmp_path, [job("j", attempt(1))], machines)
    assert refusal(lambda: read_philly(path, [jobs])).startswith(f"{path}{told}")


def test_the_pods_of_a_job_on_several_servers_are_a_gang(tmp_path: Path) -> None:
    machines, jobs = files(
        tmp_path, [job("one", attempt(1)), job("two", attempt(2, 1)), job("three", attempt(1, 1))]
    )
    pods = read_philly(machines, [jobs])[1]["cluster_job_log"]
    gangs = [pod.gang for pod in pods]
    assert gangs[0] == ""
    assert gangs[1] == gangs[2] != gangs[3] == gangs[4] != ""


def test_files_that_are_not_there(tmp_path: Path) -> None:
    machines, jobs = files(tmp_path, [])
    jobs.unlink()
    assert refusal(lambda: read_philly(machines, [jobs])).startswith(f"{jobs}: cannot be read: No such file")
