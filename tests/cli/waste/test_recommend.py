"""`scheduler-ext recommend` on files and on a live cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scheduler_ext.cli import main
from tests.cluster.api.api_faults import Refuse
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_requests import lists
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import Json, gpu, gpu_node, node, pod, terminated
from tests.pages import SAMPLE

WHOLE = "nvidia.com/gpu"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"


def recommend(*options: str) -> Result:
    return CliRunner().invoke(main, ["recommend", *options])


def parsed(*options: str) -> dict[str, Any]:
    result = recommend("-o", "json", *options)
    assert (result.exit_code, result.exception) == (0, None)
    found: dict[str, Any] = json.loads(result.output)
    return found


def of_sample(name: str) -> dict[str, Any]:
    items = parsed("--inventory", str(SAMPLE))["items"]
    (item,) = [item for item in items if item["targetRef"]["name"] == name]
    (found,) = item["recommendation"]["containerRecommendations"]
    return found  # type: ignore[no-any-return]


def test_a_notebook_on_a_whole_gpu_fits_a_share() -> None:
    found = of_sample("notebook-1")
    assert (found["verdict"], found["options"][0]["kind"]) == ("lower", "share")
    assert found["target"] == found["options"][0]["resources"]


def test_a_whole_gpu_that_is_too_small_is_raised_by_an_annotation() -> None:
    lacking = terminated(pod("p", {WHOLE: "1"}, on="n"), "torch.OutOfMemoryError: CUDA out of memory.")
    small, large = gpu(0, model="T4", total=15360), gpu(1, model="L40S", total=46068)
    text = "\n---\n".join(
        json.dumps(each) for each in (gpu_node("n", [small]), gpu_node("m", [large]), lacking)
    )
    shown = CliRunner().invoke(main, ["recommend", "--inventory", "-"], input=text).stdout
    assert "raise     gpu=1 min-memory=18432Mi" in shown, "no node of the cluster has shares"


@pytest.mark.parametrize(
    ("command", "said"), [("recommend", "No pods with GPUs\n"), ("idle", "No idle pods\n")]
)
def test_a_file_without_such_pods_says_so(command: str, said: str) -> None:
    text = json.dumps(gpu_node("n", [gpu(0)]))
    result = CliRunner().invoke(main, [command, "--inventory", "-"], input=text)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", said)


def test_a_shorter_time_is_an_option() -> None:
    long = parsed("--inventory", str(SAMPLE), "--min-age", "100h")["items"]
    verdicts = [
        each["verdict"] for item in long for each in item["recommendation"]["containerRecommendations"]
    ]
    assert "lower" not in verdicts


def live(server: ApiServer, path: Path) -> Path:
    peak: Json = {"uid": "uid-p", "memoryMiB": 100, "peakMiB": 6000}
    server.store.put(NODES, node("n", {WHOLE: "1"}))
    server.store.put(GPU_NODES, gpu_node("n", [gpu(0, holders=[peak])]))
    asking = pod("p", {WHOLE: "1"}, on="n")
    asking["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web-5d", "controller": True}]
    asking["status"]["startTime"] = "2026-01-01T00:00:00Z"
    server.store.put(PODS, asking)
    return server.kubeconfig(path / "kubeconfig")


def test_owners_that_may_not_be_read_are_named(tmp_path: Path) -> None:
    with ApiServer() as server:
        kubeconfig = live(server, tmp_path)
        server.faults.place(Refuse(403, "Forbidden", "may not list"), lists(REPLICA_SETS))
        result = recommend("--kubeconfig", str(kubeconfig))
    assert result.exit_code == 0
    assert "warning: ReplicaSets of default: not counted" in result.stderr
    assert "default/ReplicaSet/web-5d" in result.stdout


def test_a_live_cluster_with_the_owners_of_its_pods(tmp_path: Path) -> None:
    with ApiServer() as server:
        kubeconfig = live(server, tmp_path)
        above = {"kind": "Deployment", "name": "web", "controller": True}
        metadata = {"name": "web-5d", "namespace": "default", "uid": "rs", "ownerReferences": [above]}
        server.store.put(REPLICA_SETS, {"kind": "ReplicaSet", "metadata": metadata})
        (item,) = parsed("--kubeconfig", str(kubeconfig))["items"]
    assert item["targetRef"] == {"kind": "Deployment", "name": "web"}
    (found,) = item["recommendation"]["containerRecommendations"]
    assert (found["peakMiB"], found["pods"]) == (6000, 1)
