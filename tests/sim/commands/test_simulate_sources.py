"""simulate cluster: the sources of its cluster and of its pods, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import CLUSTER, WHOLE, Written, error_of, of_all_sources, run, serving
from tests.cli.test_pod_files import deployment, pytorch_job
from tests.cli.test_sources import quota
from tests.cli.test_terminal import COLOUR, on_terminal
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import SHARE, Json, gpu, gpu_node, inventory, node, pod


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with serving(*CLUSTER) as running:
        yield running


@pytest.fixture
def kubeconfig(server: ApiServer, tmp_path: Path) -> Path:
    return server.kubeconfig(tmp_path / "kubeconfig")


@pytest.fixture
def research(kubeconfig: Path) -> Path:
    """The context is in this namespace."""
    config = json.loads(kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = "research"
    kubeconfig.write_text(json.dumps(config))
    return kubeconfig


def asking(namespace: str | None = None) -> Json:
    asked = pod("p", {WHOLE: "1"}, priority=9)
    del asked["metadata"]["namespace"]
    if namespace is not None:
        asked["metadata"]["namespace"] = namespace
    return asked


def test_all_sources_answer_alike(cluster: Path, kubeconfig: Path, written: Written) -> None:
    pods = written("pod.yaml", pod("p", {WHOLE: "1"}, schedulerName="gpu-scheduler"))
    words = ["simulate", "cluster", "--pods", str(pods)]
    named, *others = of_all_sources(words, "--cluster", cluster, kubeconfig)
    assert (named.exit_code, named.stderr) == (0, "")
    assert named.stdout != ""
    assert [(each.stdout, each.stderr) for each in others] == [(named.stdout, "")] * 3


def test_a_quota_of_the_cluster_and_one_beside_the_pods_are_notes(
    server: ApiServer, kubeconfig: Path, written: Written
) -> None:
    server.store.put("/api/v1/resourcequotas", quota("there", "1"))
    pods = yaml.safe_dump_all([quota("beside", "0"), pod("p", {WHOLE: "1"}, schedulerName="gpu-scheduler")])
    asked = ("simulate", "cluster", "--pods", written("pods.yaml", pods))
    told = run(*asked, "--kubeconfig", kubeconfig).output
    assert "ResourceQuota default/there: 1 of 1 requests.nvidia.com/gpu are used" in told
    assert "ResourceQuota default/beside: 1 of 0 requests.nvidia.com/gpu are used" in told


@pytest.mark.parametrize(
    ("named", "arguments", "where"),
    [
        pytest.param(None, [], "research", id="the manifest names none: that of the context"),
        pytest.param(None, ["-n", "web"], "web", id="the manifest names none: the one that is given"),
        pytest.param("web", [], "web", id="the manifest names one: that one"),
    ],
)
def test_the_namespace_of_a_manifest(
    research: Path, written: Written, named: str | None, arguments: list[str], where: str
) -> None:
    asked = ("simulate", "cluster", "--pods", written("pod.yaml", asking(named)))
    done = run(*asked, "--kubeconfig", research, *arguments, "-o", "json")
    assert [item["pod"] for item in json.loads(done.stdout)["items"]] == [f"{where}/p"]


def test_two_pods_of_one_name_are_one_too_many_once_both_have_their_namespace(
    research: Path, written: Written
) -> None:
    path = written("pods.yaml", {"kind": "List", "items": [asking(), asking("research")]})
    problem = error_of(run("simulate", "cluster", "--pods", path, "--kubeconfig", research))
    assert problem == f"{path}: Pod research/p is in the file twice; keep one"


def test_all_replicas_come(cluster: Path, written: Written) -> None:
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


@pytest.mark.parametrize(
    ("pods", "options", "problem"),
    [
        pytest.param(
            pod("p", {WHOLE: "1"}),
            ["--out", "missing/out"],
            "--out missing/out: cannot be written: No such file or directory",
            id="no folder for the output",
        ),
        pytest.param({"kind": "List", "items": []}, [], "{pods}: no Pod in it", id="no pods"),
        pytest.param(
            pod("busy", {WHOLE: "1"}),
            ["--policy", "fgd"],
            "{pods}: Pod default/busy is on node a100-2",
            id="a pod that runs already",
        ),
    ],
)
def test_errors_are_one_line(
    cluster: Path, written: Written, pods: Json, options: list[str], problem: str
) -> None:
    path = written("pods.yaml", pods)
    told = error_of(run("simulate", "cluster", "--pods", path, "--cluster", cluster, *options))
    assert told.startswith(problem.format(pods=path))


def test_one_cluster_is_given() -> None:
    result = run("simulate", "cluster", *("--pods", "x", "--cluster", "y", "--kubeconfig", "z"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "give one of --cluster, --kubeconfig" in " ".join(result.stderr.split())


@pytest.mark.parametrize("gpus", ["64", "two"])
def test_a_pod_that_would_not_fit_or_cannot_be_read_is_exit_3(
    cluster: Path, written: Written, gpus: str
) -> None:
    pods = written("pod.yaml", pod("p", {WHOLE: gpus}, schedulerName="gpu-scheduler"))
    result = run("simulate", "cluster", "--pods", pods, "--cluster", cluster)
    assert (result.exit_code, result.stderr) == (3, "")


def test_names_do_not_act_on_a_terminal(written: Written) -> None:
    hostile = "x\x1b[2J\u202e"
    objects = gpu_node(hostile, [gpu(0)]), node(hostile, {SHARE: "73728"})
    path = written("inventory.json", inventory(*objects))
    pods = written("pods.yaml", pod(hostile, {SHARE: "30000"}))
    shown = COLOUR.sub("", on_terminal("simulate", "cluster", "--cluster", path, "--pods", pods))
    assert "x\\x1b[2J\\u202e" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
