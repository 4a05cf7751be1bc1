"""`scheduler-ext recommend` on files and on a live cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import CLUSTER, WHOLE, of_all_sources, run, serving
from tests.cluster.api.api_faults import Refuse
from tests.cluster.api.api_requests import lists
from tests.kube_objects import Json, gpu, gpu_node, inventory, node, owned, pod, terminated
from tests.pages import SAMPLE

REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"


def parsed(*options: str | Path) -> dict[str, Any]:
    result = run("recommend", "-o", "json", *options)
    assert (result.exit_code, result.exception) == (0, None)
    found: dict[str, Any] = json.loads(result.output)
    return found


def test_all_sources_answer_alike(cluster: Path, tmp_path: Path) -> None:
    with serving(*CLUSTER) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        named, *others = of_all_sources(["recommend", "-o", "name"], "--inventory", cluster, kubeconfig)
    assert (named.exit_code, named.stderr) == (0, "")
    assert named.stdout != ""
    assert [(each.stdout, each.stderr) for each in others] == [(named.stdout, "")] * 3


def test_a_whole_gpu_that_is_too_small_is_raised_by_an_annotation() -> None:
    lacking = terminated(pod("p", {WHOLE: "1"}, on="n"), "torch.OutOfMemoryError: CUDA out of memory.")
    small, large = gpu(0, model="T4", total=15360), gpu(1, model="L40S", total=46068)
    objects = inventory(gpu_node("n", [small]), gpu_node("m", [large]), lacking)
    shown = run("recommend", "--inventory", "-", stdin=objects).stdout
    assert "raise     gpu=1 min-memory=18432Mi" in shown, "no node of the cluster has shares"


@pytest.mark.parametrize(
    ("command", "said"), [("recommend", "No pods with GPUs\n"), ("idle", "No idle pods\n")]
)
def test_a_file_without_such_pods_says_so(command: str, said: str) -> None:
    result = run(command, "--inventory", "-", stdin=inventory(gpu_node("n", [gpu(0)])))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", said)


def test_a_shorter_time_is_an_option() -> None:
    long = parsed("--inventory", str(SAMPLE), "--min-age", "100h")["items"]
    verdicts = [
        each["verdict"] for item in long for each in item["recommendation"]["containerRecommendations"]
    ]
    assert "lower" not in verdicts


def held() -> list[Json]:
    """A pod of a ReplicaSet on the GPU of a node."""
    peak: Json = {"uid": "uid-p", "memoryMiB": 100, "peakMiB": 6000}
    asking = owned(pod("p", {WHOLE: "1"}, on="n"), name="web-5d")
    asking["status"]["startTime"] = "2026-01-01T00:00:00Z"
    return [node("n", {WHOLE: "1"}), gpu_node("n", [gpu(0, holders=[peak])]), asking]


def test_a_live_cluster_with_the_owners_of_its_pods(tmp_path: Path) -> None:
    above = {"kind": "Deployment", "name": "web", "controller": True}
    metadata = {"name": "web-5d", "namespace": "default", "uid": "rs", "ownerReferences": [above]}
    with serving(*held()) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        server.store.put(REPLICA_SETS, {"kind": "ReplicaSet", "metadata": metadata})
        (item,) = parsed("--kubeconfig", kubeconfig)["items"]
        server.faults.place(Refuse(403, "Forbidden", "may not list"), lists(REPLICA_SETS))
        refused = run("recommend", "--kubeconfig", kubeconfig)
    assert item["targetRef"] == {"kind": "Deployment", "name": "web"}
    (found,) = item["recommendation"]["containerRecommendations"]
    assert (found["peakMiB"], found["pods"]) == (6000, 1)
    assert refused.exit_code == 0
    assert "warning: ReplicaSets of default: not counted" in refused.stderr
    assert "default/ReplicaSet/web-5d" in refused.stdout
