"""`idle`: the pods that hold GPUs and compute nothing, of a file and of a live cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler_ext.wire.times import time_text
from tests.cli.commands import run
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_server import ApiServer
from tests.kube_idle import CLUSTER
from tests.kube_objects import gpu, gpu_node, holder, inventory, node, pod

GPU = "nvidia.com/gpu"
CONFIG = {"apiVersion": "config.scheduler-ext.io/v1alpha1", "kind": "ExtenderConfiguration"}


@pytest.fixture(params=["a file", "a live cluster"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The options that name the cluster."""
    if request.param == "a file":
        path = tmp_path / "inventory.json"
        path.write_bytes(inventory(*CLUSTER))
        yield ["--inventory", path]
        return
    with ApiServer() as server:
        paths = {"Node": NODES, "GPUNode": GPU_NODES, "Pod": PODS}
        for each in CLUSTER:
            server.store.put(paths[each["kind"]], each)
        yield ["--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig")]


def test_the_table(source: list[Any]) -> None:
    shown = run("idle", *source)
    assert (shown.exit_code, shown.stderr) == (0, "")
    *table, note = shown.stdout.splitlines()
    assert [line.split() for line in table] == [
        ["NAMESPACE", "POD", "OWNER", "NODE", "GPUS", "MODEL", "IDLE", "VALUE/H", "WASTED"],
        ["lab", "notebook", "StatefulSet/notebook", "h100", "1", "H100-80GB", "2h", "6.90", "13.80"],
        ["prod", "old", "-", "t4", "1", "T4", "1h", "0.50", "0.50"],
        [],
        ["NAMESPACE", "PODS", "GPUS", "VALUE/H", "WASTED"],
        ["lab", "1", "1", "6.90", "13.80"],
        ["prod", "1", "1", "0.50", "0.50"],
        ["all", "2", "2", "7.40", "14.30"],
    ]
    assert note == "Note: 1 running pod with GPUs is left out: no agent reports when it computed"


def test_one_namespace(source: list[Any]) -> None:
    listing = json.loads(run("idle", *source, "-n", "lab", "-o", "json").stdout)
    assert (listing["kind"], listing["afterSeconds"], listing["unknownPods"]) == ("IdlePodList", 1800, 0)
    (item,) = listing["items"]
    assert (item["name"], item["owner"], item["idleSeconds"]) == ("notebook", "StatefulSet/notebook", 7200)
    assert item["devices"] == [
        {
            "uuid": "GPU-h0",
            "index": 0,
            "model": "H100-80GB",
            "profile": None,
            "gpus": 1.0,
            "idleSeconds": 7200,
        }
    ]


@pytest.mark.parametrize(
    ("after", "expected"),
    [("30s", "notebook old new"), ("2h", "notebook"), ("3h", "")],
    ids=["a short window", "a long window", "a window longer than all idle times"],
)
def test_the_window_of_the_configuration(
    source: list[Any], written: Callable[[str, Any], Path], after: str, expected: str
) -> None:
    config = written("config.yaml", CONFIG | {"idle": {"after": after}})
    shown = run("idle", *source, "--config", config, "-o", "name")
    assert shown.stdout.split() == [f"pod/{name}" for name in expected.split()]


def test_values_of_the_configuration(source: list[Any], written: Callable[[str, Any], Path]) -> None:
    config = written("config.yaml", CONFIG | {"values": {"T4": 40}})
    listing = json.loads(run("idle", *source, "--config", config, "-o", "json").stdout)
    assert [(item["name"], item["valuePerHour"]) for item in listing["items"]] == [
        ("old", 40.0),
        ("notebook", 6.9),
    ]


def test_no_idle_pod_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    path.write_bytes(inventory(*CLUSTER[:2]))
    shown = run("idle", "--inventory", path)
    assert (shown.exit_code, shown.stdout, shown.stderr) == (0, "", "No idle pods\n")


def test_a_pod_that_began_a_minute_ago_on_an_idle_gpu_is_idle_in_no_command(tmp_path: Path) -> None:
    device = gpu(0, holders=[{"uid": "uid-p"}], idleSeconds=7200)
    each = pod("p", {"nvidia.com/gpu": "1"}, on="n")
    path = tmp_path / "inventory.json"
    for ran_s, expected in ((60, []), (3600, ["p"])):
        each["status"]["startTime"] = time_text(time.time() - ran_s)
        path.write_bytes(inventory(gpu_node("n", [device]), each))
        listing = json.loads(run("idle", "--inventory", path, "-o", "json").stdout)
        assert [item["name"] for item in listing["items"]] == expected
        cost = json.loads(run("cost", "--inventory", path, "-o", "json").stdout)
        assert cost["total"]["idle"] == 3.4 * len(expected)


def test_times_of_a_saved_cluster_end_with_its_newest_report(tmp_path: Path) -> None:
    device = gpu(0, model="H100-80GB", holders=[holder("p")], idleSeconds=7200)
    running = pod("p", {GPU: "1"}, on="n", schedulerName="gpu-scheduler")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    running["metadata"]["ownerReferences"] = [owner]
    running["status"]["startTime"] = "2026-01-05T11:55:00Z"
    saved = (gpu_node("n", [device, gpu(1)], reportedAt="2026-01-05T12:00:00Z"), node("n", {GPU: "2"}))
    path = tmp_path / "inventory.json"
    path.write_bytes(inventory(*saved, running))
    shown = {
        command: json.loads(run(command, "--inventory", path, "-o", "json", *more).stdout)
        for command, more in (("idle", ()), ("cost", ()), ("defrag", ("--for", "2")))
    }
    assert shown["idle"]["items"] == [], "the pod ran for five minutes"
    assert shown["cost"]["total"]["idle"] == 0
    assert shown["defrag"]["staying"] == [{"reason": "is younger than 600 s", "pods": 1}]
    running["status"]["startTime"] = "2026-01-05T09:00:00Z"
    path.write_bytes(inventory(*saved, running))
    (item,) = json.loads(run("idle", "--inventory", path, "-o", "json").stdout)["items"]
    assert (item["since"], item["wastedValue"]) == ("2026-01-05T10:00:00Z", 13.8)
