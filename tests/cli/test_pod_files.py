"""Files of workloads, and standard input, in place of a file with one Pod."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import CLUSTER, WHOLE, Written, error_of, run
from tests.kube_objects import Json, inventory, pod
from tests.wire.hostile_texts import BOMBS, POD, SCALARS


def deployment(name: str = "web", replicas: int | None = 3, limits: Json | None = None) -> Json:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod("p", limits or {WHOLE: "1"})["spec"]}
    spec = {"template": template} | ({} if replicas is None else {"replicas": replicas})
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def pytorch_job() -> Json:
    template = {"spec": pod("p", {WHOLE: "1"})["spec"]}
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


def test_all_replicas_come_in_a_simulation(cluster: Path, written: Written) -> None:
    path = written("deployment.yaml", yaml.safe_dump_all([deployment(replicas=12), pytorch_job()]))
    result = run("simulate", "cluster", "--cluster", cluster, "--pods", path, "-o", "json")
    assert [item["pod"] for item in json.loads(result.stdout)["items"]] == [
        *(f"default/web-{i}" for i in range(12)),
        *("default/train-master", "default/train-worker-0", "default/train-worker-1"),
    ]
    assert result.stderr.splitlines() == [
        "Note: a pod from the template of Deployment web, which runs 12 in total",
        "Note: a pod from the template of PyTorchJob train, which runs 1 in total",
        "Note: a pod from the template of PyTorchJob train, which runs 2 in total",
    ]


@pytest.mark.parametrize("replicas", [0, 1_000_000_000])
def test_a_simulation_of_no_pods_or_too_many_is_refused(
    cluster: Path, written: Written, replicas: int
) -> None:
    path = written("deployment.yaml", deployment(replicas=replicas))
    problem = error_of(run("simulate", "cluster", "--cluster", cluster, "--pods", path))
    assert problem == f"{path}: {replicas} pods by its replicas; give 1 to 100000"
    assert run("explain", "-f", path, "--inventory", cluster).exit_code == 0, "of which one is asked about"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("inventory", "--inventory", "-", "-o", "name"), id="inventory"),
        pytest.param(("explain", "-f", "POD", "--inventory", "-", "-o", "name"), id="explain"),
        pytest.param(("capacity", "-f", "POD", "--inventory", "-", "-o", "name"), id="capacity"),
        pytest.param(("simulate", "cluster", "--pods", "POD", "--cluster", "-", "-o", "name"), id="simulate"),
    ],
)
def test_an_inventory_comes_from_standard_input(
    cluster: Path, written: Written, command: tuple[str, ...]
) -> None:
    pods = written("pod.yaml", pod("p", {WHOLE: "1"}))
    args = [str(pods) if arg == "POD" else arg for arg in command]
    piped = run(*args, stdin=inventory(*CLUSTER))
    named = run(*(str(cluster) if arg == "-" else arg for arg in args))
    assert (piped.exit_code, piped.stdout, piped.stderr) == (0, named.stdout, named.stderr)
    assert piped.stdout


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(b"", "standard input: empty; expected GPUNode, Node", id="nothing"),
        pytest.param(b"kind: [", "standard input: neither YAML nor JSON", id="broken YAML"),
        pytest.param(inventory(pod("p")), "standard input: no Node and no GPUNode in it; ", id="no node"),
        pytest.param(b"kind: Service", "standard input: no Node and no GPUNode in it; ", id="another kind"),
    ],
)
def test_an_inventory_of_standard_input_that_cannot_be_used_is_named(text: bytes, problem: str) -> None:
    assert error_of(run("inventory", "--inventory", "-", stdin=text)).startswith(problem)


def test_standard_input_is_one_thing(cluster: Path) -> None:
    for args in (
        ("explain", "-f", "-", "--inventory", "-"),
        ("simulate", "cluster", "--pods", "-", "--cluster", "-"),
    ):
        result = run(*args, stdin=json.dumps(pod("p")).encode())
        assert result.exit_code == 2
        assert "-: standard input can be read only once; give a file for one of the two" in result.stderr


def test_serve_takes_no_inventory_from_standard_input() -> None:
    result = run("serve", "--inventory", "-", stdin=inventory(*CLUSTER))
    assert result.exit_code == 2
    assert "--inventory -: serve reads its inventory again when it changes; give a file" in result.stderr


@pytest.mark.process
def test_an_inventory_without_nodes_is_no_inventory_to_serve(written: Written) -> None:
    path = written("inventory.yaml", pod("p"))
    listen = [
        part
        for flag in ("listen", "health-listen", "inspect-listen")
        for part in (f"--{flag}", "127.0.0.1:0")
    ]
    child = subprocess.run(
        [sys.executable, "-m", "scheduler_ext", "serve", "--inventory", str(path), *listen],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == 1
    assert f"{path}: no Node and no GPUNode in it; " in child.stderr


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_end_in_one_line(cluster: Path, written: Written, bomb: str) -> None:
    path = written("bomb.yaml", BOMBS[bomb])
    for args in (
        ("explain", "-f", path, "--inventory", cluster),
        ("simulate", "cluster", "--pods", path, "--cluster", cluster),
        ("inventory", "--inventory", path),
        ("check-config", path),
    ):
        assert error_of(run(*args)).startswith(f"{path}: YAML, line ")


@pytest.mark.parametrize(
    "scalar", [scalar for scalar in SCALARS if not SCALARS[scalar]], ids=lambda text: repr(text[:40])
)
def test_an_invalid_value_ends_in_one_line(cluster: Path, written: Written, scalar: str) -> None:
    path = written("pod.yaml", f"{POD}x: {scalar}\n")
    assert error_of(run("explain", "-f", path, "--inventory", cluster)).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param("on", "expected a quantity (string or number), got `true`", id="a truth"),
        pytest.param("1:30", "'1:30' cannot be read", id="a number to the base of 60"),
        pytest.param("0o10", "'0o10' cannot be read", id="an octal number of YAML 1.2"),
        pytest.param("2026-01-01", "'2026-01-01' cannot be read", id="a date"),
    ],
)
def test_traps_of_yaml_are_named_where_they_matter(
    cluster: Path, written: Written, value: str, problem: str
) -> None:
    limits = f"{{name: c, resources: {{limits: {{cpu: {value}}}}}}}"
    text = f"kind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{limits}]}}\n"
    path = written("pod.yaml", text)
    assert problem in error_of(run("explain", "-f", path, "--inventory", cluster))


@pytest.mark.parametrize("value", ["on", "5", "1.5"])
def test_a_label_that_yaml_does_not_read_as_text_is_named_with_the_fix(
    cluster: Path, written: Written, value: str
) -> None:
    path = written("pod.yaml", f"kind: Pod\nmetadata: {{name: p, labels: {{a: {value}}}}}\n")
    problem = error_of(run("explain", "-f", path, "--inventory", cluster))
    assert "metadata.labels[...]: Expected `str | null`" in problem
    assert "quote it in YAML" in problem
