"""The commands about a node without a report: a plain node of a device plugin, and one whose agent is
silent."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import run
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import Json, gpu, gpu_node, node, pod

WHOLE = "nvidia.com/gpu"
HOUR_AGO_S = 3600
LABEL = "gpu.scheduler-ext.io/agent"


def hour_ago() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - HOUR_AGO_S))


def born(name: str, gpus: int) -> Json:
    """A Node of kubeadm with the device plugin alone."""
    found = node(name, {WHOLE: str(gpus)}, labels={"kubernetes.io/hostname": name})
    found["metadata"]["creationTimestamp"] = hour_ago()
    return found


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster of a plain node with four GPUs, two of them held, and of a silent one with a sick GPU."""
    with ApiServer() as server:
        server.store.put_all(NODES, [born("plain", 4), born("silent", 2)])
        report = gpu_node("silent", [gpu(0), gpu(1, health={"state": "Unhealthy", "reason": "XID 79"})])
        report["status"]["reportedAt"] = hour_ago()
        report["metadata"]["managedFields"] = [{"subresource": "status", "time": hour_ago()}]
        server.store.put(GPU_NODES, report)
        server.store.put(PODS, pod("held", {WHOLE: "2"}, on="plain"))
        yield server.kubeconfig(tmp_path_factory.mktemp("unreported") / "kubeconfig")


@pytest.fixture
def config(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "config.scheduler-ext.io/v1alpha1",
                "kind": "ExtenderConfiguration",
                "inventory": {"unreported": request.param},
            }
        )
    )
    return path


def asking(count: int) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "Pod", **pod("p", {WHOLE: str(count)})}).encode()


allowing = pytest.mark.parametrize("config", ["allow"], indirect=True)
refusing = pytest.mark.parametrize("config", ["refuse"], indirect=True)


@refusing
def test_explain_says_why_and_what_to_do(kubeconfig: Path, config: Path) -> None:
    done = run("explain", "-f", "-", "--kubeconfig", kubeconfig, "--config", config, stdin=asking(1))
    assert done.exit_code == 3
    assert "Fits nowhere: 2 node(s) had no fresh GPU inventory." in done.stdout
    why = "it has no report, and no label that brings an agent to it"
    assert f"Nearest: plain has no fresh report of its GPUs (Missing): {why}" in done.stdout
    assert (
        f"Have an operator bring an agent to plain with `kubectl label node plain {LABEL}=true`"
        in done.stdout
    )
    assert "set `inventory.unreported: allow` in the extender's configuration" in done.stdout


@allowing
@pytest.mark.parametrize(
    ("count", "best"),
    [
        pytest.param(1, {"plain", "silent"}, id="one"),
        pytest.param(2, {"plain"}, id="two, where no GPU is known to be sick"),
        pytest.param(3, set(), id="more than the requests leave"),
    ],
)
def test_explain_counts_by_allocatable(kubeconfig: Path, config: Path, count: int, best: set[str]) -> None:
    options = ("--kubeconfig", kubeconfig, "--config", config, "-o", "json")
    done = run("explain", "-f", "-", *options, stdin=asking(count))
    nodes = json.loads(done.stdout)["nodes"]
    assert {each["node"] for each in nodes if each["verdict"] == "fits"} == best
    assert {each["node"]: each["freeGpus"] for each in nodes} == {"plain": 2, "silent": 1}


@allowing
def test_capacity_and_simulate_count_the_same(kubeconfig: Path, config: Path) -> None:
    options = ("--kubeconfig", kubeconfig, "--config", config, "-o", "json")
    found = json.loads(run("capacity", "-f", "-", *options, stdin=asking(1)).stdout)
    assert {each["node"]: each["count"] for each in found["nodes"] if each["count"]} == {
        "plain": 2,
        "silent": 1,
    }


@allowing
def test_inventory_says_what_such_nodes_take(kubeconfig: Path, config: Path) -> None:
    done = run("inventory", "--kubeconfig", kubeconfig, "--config", config)
    takes = "it takes whole GPUs and MIG instances by its allocatable alone"
    assert f"plain: it has no report, and no label that brings an agent to it: {takes}" in done.stdout
    assert f"is too old: {takes}" in done.stdout


@refusing
def test_inventory_says_that_such_nodes_take_nothing(kubeconfig: Path, config: Path) -> None:
    done = run("inventory", "--kubeconfig", kubeconfig, "--config", config)
    assert "plain: it has no report, and no label that brings an agent to it: it takes no pod" in done.stdout
    listed = json.loads(run("inventory", "--kubeconfig", kubeconfig, "--config", config, "-o", "json").stdout)
    assert [(each["state"], each["byAllocatable"]) for each in listed["items"]] == [("Missing", False)] * 2
