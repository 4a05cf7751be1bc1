"""The source of a command's cluster: exactly one, and the error where there is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import CLUSTER, WHOLE, Written, error_of, run
from tests.cluster.api.api_faults import Refuse
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_requests import lists
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import gpu, gpu_node, node, pod

PATHS = {"GPUNode": GPU_NODES, "Node": NODES, "Pod": PODS}
SERVE = "--inventory, --kubeconfig, --in-cluster"
READ = "--inventory, --kubeconfig"


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        pytest.param(["serve"], f"nothing to read from: give one of {SERVE}", id="serve of nothing"),
        pytest.param(
            ["serve", "--inventory", "x", "--kubeconfig", "y"],
            f"--inventory and --kubeconfig are too many: give one of {SERVE}",
            id="serve of a file and a cluster",
        ),
        pytest.param(
            ["serve", "--kubeconfig", "y", "--in-cluster"],
            f"--kubeconfig and --in-cluster are too many: give one of {SERVE}",
            id="serve of two clusters",
        ),
        pytest.param(["inventory"], f"nothing to read from: give one of {READ}", id="inventory of nothing"),
        pytest.param(
            ["inventory", "--inventory", "x", "--kubeconfig", "y"],
            f"--inventory and --kubeconfig are too many: give one of {READ}",
            id="inventory of two",
        ),
        pytest.param(
            ["serve", "--inventory", "x", "--lease", "a/b"],
            "--lease: an inventory file has no cluster to lead; leave it out",
            id="a Lease without a cluster",
        ),
        pytest.param(
            ["serve", "--kubeconfig", "x", "--lease", "b"],
            "'b' is no NAMESPACE/NAME",
            id="a Lease's name alone",
        ),
        pytest.param(
            ["serve", "--kubeconfig", "x", "--lease", "a/b/c"],
            "'a/b/c' is no NAMESPACE/NAME",
            id="a Lease's name with too much",
        ),
        pytest.param(
            ["serve", "--kubeconfig", "x", "--lease", "/b"], "'/b' is no NAMESPACE/NAME", id="no namespace"
        ),
    ],
)
def test_wrong_usage(args: list[str], problem: str) -> None:
    result = run(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Usage: scheduler-ext {args[0]} ")
    assert problem in " ".join(result.stderr.split())


@pytest.mark.parametrize("both", [False, True], ids=["nothing", "two"])
def test_explain_wants_one_source_too(written: Written, both: bool) -> None:
    asking = written("pod.yaml", pod("p", {WHOLE: "1"}))
    result = run("explain", "-f", asking, *(["--inventory", "x", "--kubeconfig", "y"] if both else []))
    assert result.exit_code == 2
    assert "give one of --inventory, --kubeconfig" in result.stderr


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        for found in CLUSTER:
            running.store.put(PATHS[found["kind"]], found)
        # A file may have reports on absent nodes; in a cluster the Nodes count.
        for name in ("a100-1", "a100-2", "mig-1"):
            running.store.put(NODES, node(name, {WHOLE: "2"}))
        yield running


def test_a_live_cluster_is_listed_and_explained(server: ApiServer, written: Written, tmp_path: Path) -> None:
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
    listed = run("inventory", "--kubeconfig", kubeconfig, "-o", "json")
    assert (listed.exit_code, listed.stderr) == (0, "")
    names = [item["node"] for item in json.loads(listed.stdout)["items"]]
    assert names == ["a100-1", "a100-2", "labels-1", "mig-1"]
    asking = written("pod.yaml", pod("p", {WHOLE: "1"}))
    explained = run("explain", "-f", asking, "--kubeconfig", kubeconfig, "-o", "json")
    assert (explained.exit_code, explained.stderr) == (0, "")


def test_a_refused_report_is_a_warning(server: ApiServer, tmp_path: Path) -> None:
    server.store.put(GPU_NODES, gpu_node("a100-1", [gpu(0), gpu(0, "GPU-1")]))
    result = run("inventory", "--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"), "-o", "json")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: GPUNode a100-1: status.devices[1].index")
    assert result.stderr.count("\n") == 1
    problems = {item["node"]: item["problem"] for item in json.loads(result.stdout)["items"]}
    assert problems["a100-2"] is None
    assert problems["a100-1"].startswith("GPUNode a100-1: status.devices[1].index")


def test_serve_says_that_a_cluster_is_followed() -> None:
    assert "--kubeconfig PATH Kubeconfig of the cluster to watch." in " ".join(
        run("serve", "--help").stdout.split()
    )
    assert "Kubeconfig of a live cluster, read once" in " ".join(run("explain", "--help").stdout.split())


def test_a_cluster_that_refuses_is_one_line(server: ApiServer, tmp_path: Path) -> None:
    server.faults.place(Refuse(403, "Forbidden", "may not list nodes"), lists(NODES))
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
    message = error_of(run("inventory", "--kubeconfig", kubeconfig))
    assert message == f"kubeconfig {kubeconfig}: 403 Forbidden: may not list nodes"


@pytest.mark.parametrize("command", ["inventory", "explain"])
def test_a_cluster_that_is_away_is_named(
    server: ApiServer, written: Written, tmp_path: Path, command: str
) -> None:
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
    server.stop()
    asking: list[str | Path] = (
        ["-f", written("pod.yaml", pod("p", {WHOLE: "1"}))] if command == "explain" else []
    )
    assert error_of(run(command, *asking, "--kubeconfig", kubeconfig)).startswith(
        f"kubeconfig {kubeconfig}: "
    )


def test_refusals_of_kube_scheduler_on_a_live_cluster_are_explained(
    server: ApiServer, written: Written, tmp_path: Path
) -> None:
    """kube-scheduler's own filters count every pod of a node, also pods without GPUs."""
    server.store.put(PODS, pod("large", {"cpu": "60"}, on="a100-1"))
    server.store.put(PODS, pod("over", {"cpu": "60"}, on="a100-1", phase="Succeeded"))
    taints = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    server.store.put(NODES, node("mig-1", {WHOLE: "2"}, taints=taints))
    asking = written("pod.yaml", pod("p", {WHOLE: "1", "cpu": "5"}))
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
    output = run("explain", "-f", asking, "-o", "wide", "--kubeconfig", kubeconfig).stdout
    rows = {line.split()[0]: line for line in reversed(output.splitlines()) if line}
    assert "Insufficient cpu" in rows["a100-1"]
    assert rows["mig-1"].endswith("by kubernetes: has karpenter.sh/disrupted:NoSchedule")
    assert "None" not in output


@pytest.mark.parametrize("form", ["table", "wide"])
def test_refused_reports_and_cordons_are_marked(server: ApiServer, tmp_path: Path, form: str) -> None:
    server.store.put(GPU_NODES, gpu_node("labels-1", [gpu(0), gpu(0, "GPU-1")]))
    cordoned = gpu_node("a100-1", [gpu(0), gpu(1)])
    cordoned["metadata"]["annotations"] = {"gpu.scheduler-ext.io/cordoned": "GPU-1, GPU-\x1b"}
    server.store.put(GPU_NODES, cordoned)
    result = run("inventory", "--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"), "-o", form)
    assert "Note: labels-1: its report is refused, labels are shown" in result.stdout
    assert "Note: a100-1: cordoned, and no GPU of the node: GPU-" in result.stdout
    assert "\x1b" not in result.stdout
    header, *lines = result.stdout.splitlines()
    at = header.index("CORDONED")
    column = {tuple(line.split()[:2]): line[at:].split("  ")[0] for line in lines}
    if form == "table":
        assert (column["a100-1", "Fresh"], column["a100-2", "Fresh"]) == ("1, 1 unknown", "0")
        assert "labels, report refused" in result.stdout
    else:
        assert (column["a100-1", "0"], column["a100-1", "1"]) == ("-", "yes")


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere"
    assert error_of(run("inventory", "--kubeconfig", path)).startswith(f"kubeconfig {path}: ")


def test_a_context_that_is_not_there_is_named(server: ApiServer, tmp_path: Path) -> None:
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
    assert "other" in error_of(run("inventory", "--kubeconfig", kubeconfig, "--context", "other"))
