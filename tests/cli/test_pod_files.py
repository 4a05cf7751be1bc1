"""Files of workloads, and standard input, in place of a file with one Pod."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import WHOLE, Written, error_of, run
from tests.kube_objects import Json, pod

OURS = "gpu-scheduler"


def deployment(name: str = "web", replicas: int | None = 3, limits: Json | None = None) -> Json:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": pod("p", limits or {WHOLE: "1"}, schedulerName=OURS)["spec"],
    }
    spec = {"template": template} | ({} if replicas is None else {"replicas": replicas})
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def pytorch_job() -> Json:
    template = {"spec": pod("p", {WHOLE: "1"}, schedulerName=OURS)["spec"]}
    roles = {"Master": {"template": template}, "Worker": {"replicas": 2, "template": template}}
    return {"kind": "PyTorchJob", "metadata": {"name": "train"}, "spec": {"pytorchReplicaSpecs": roles}}


NOTE = "a pod from the template of Deployment web, which runs 3 in total"


@pytest.mark.parametrize("command", ["explain", "capacity"])
def test_a_pod_of_a_deployment_is_asked_about_by_its_name(
    cluster: Path, written: Written, command: str
) -> None:
    service = {"kind": "Service", "metadata": {"name": "web"}}
    path = written("deployment.yaml", yaml.safe_dump_all([service, deployment()]))
    result = run(command, "-f", path, "--inventory", cluster, "-n", "team")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Pod team/web asks nvidia.com/gpu=1\nNote: {NOTE}\n")
    answer = json.loads(run(command, "-f", path, "--inventory", cluster, "-o", "json").stdout)
    assert answer["pod"] == {"namespace": "default", "name": "web"}
    assert answer["warnings"][0] == NOTE


def test_one_of_several_pods_is_chosen_by_name(cluster: Path, written: Written) -> None:
    path = written("job.yaml", pytorch_job())
    problem = error_of(run("explain", "-f", path, "--inventory", cluster))
    assert problem == f"{path}: 2 pods in it; choose one: train-master, train-worker"
    problem = error_of(run("explain", "-f", path, "--inventory", cluster, "--pod", "train"))
    assert problem == f"{path}: no pods 'train' in it; choose one: train-master, train-worker"
    for command in ("explain", "capacity"):
        chosen = run(command, "-f", path, "--inventory", cluster, "--pod", "train-worker", "-o", "json")
        assert json.loads(chosen.stdout)["pod"]["name"] == "train-worker"


def test_an_error_names_standard_input() -> None:
    told = error_of(run("inventory", "--inventory", "-", stdin=b"kind: ["))
    assert told.startswith("standard input: neither YAML nor JSON")


@pytest.mark.parametrize("command", ["explain", "capacity"])
def test_a_mistake_in_a_pod_is_blamed_on_its_file(cluster: Path, written: Written, command: str) -> None:
    path = written("pods.yaml", pod("bad", {WHOLE: "1", "cpu": "-1"}))
    problem = error_of(run(command, "--inventory", cluster, "-f", path))
    assert problem.startswith(f"{path}: Pod default/bad: cpu: a negative amount")
