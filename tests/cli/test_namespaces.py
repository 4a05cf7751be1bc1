"""The namespace of a manifest without one, and the effect of -n."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import WHOLE, Written, error_of, run
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import Json, gpu, gpu_node, holder, node, pod

COMMANDS = {
    "capacity": ["capacity", "-f"],
    "explain": ["explain", "-f"],
    "simulate cluster": ["simulate", "cluster", "--pods"],
}
every_command = pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """A context in the namespace research; a pod of it holds the only GPU."""
    with ApiServer() as server:
        server.store.put(NODES, node("n", {WHOLE: "1"}))
        server.store.put(
            GPU_NODES, gpu_node("n", [gpu(0, holders=[holder("ours") | {"namespace": "research"}])])
        )
        ours = pod("ours", {WHOLE: "1"}, on="n")
        ours["metadata"]["namespace"] = "research"
        server.store.put(PODS, ours)
        path = server.kubeconfig(tmp_path / "kubeconfig")
        config = json.loads(path.read_text())
        config["contexts"][0]["context"]["namespace"] = "research"
        path.write_text(json.dumps(config))
        yield path


def asking(namespace: str | None = None) -> Json:
    asked = pod("p", {WHOLE: "1"}, priority=9)
    del asked["metadata"]["namespace"]
    if namespace is not None:
        asked["metadata"]["namespace"] = namespace
    return asked


@pytest.mark.parametrize(
    ("named", "arguments", "where"),
    [
        pytest.param(None, [], "research", id="the manifest names none: that of the context"),
        pytest.param(None, ["-n", "web"], "web", id="the manifest names none: the one that is given"),
        pytest.param("web", [], "web", id="the manifest names one: that one"),
        pytest.param("web", ["-n", "web"], "web", id="both name the same"),
    ],
)
@every_command
def test_the_namespace_of_a_manifest(
    kubeconfig: Path,
    written: Written,
    command: list[str],
    named: str | None,
    arguments: list[str],
    where: str,
) -> None:
    path = written("pod.yaml", asking(named))
    done = run(*command, path, "--kubeconfig", kubeconfig, *arguments, "-o", "json")
    told = json.loads(done.stdout)
    pods = [item["pod"] for item in told.get("items", [])]
    assert pods or [f"{told['pod']['namespace']}/{told['pod']['name']}"] == [f"{where}/p"]
    assert pods in ([], [f"{where}/p"])


@every_command
def test_the_namespace_of_an_inventory_file_is_default_or_the_given_one(
    cluster: Path, written: Written, command: list[str]
) -> None:
    path, flag = written("pod.yaml", asking()), "--cluster" if "simulate" in command else "--inventory"
    assert "default/p" in run(*command, path, flag, cluster).stdout
    assert "web/p" in run(*command, path, flag, cluster, "-n", "web").stdout


@every_command
def test_a_manifest_of_another_namespace_than_the_one_given(
    kubeconfig: Path, written: Written, command: list[str]
) -> None:
    path = written("pod.yaml", asking("web"))
    problem = error_of(run(*command, path, "--kubeconfig", kubeconfig, "-n", "research"))
    assert problem == f"{path}: Pod web/p is not in namespace research; give -n web, or none"


def test_two_pods_of_one_name_are_one_too_many_once_both_have_their_namespace(
    kubeconfig: Path, written: Written
) -> None:
    path = written("pods.yaml", {"kind": "List", "items": [asking(), asking("research")]})
    problem = error_of(run("simulate", "cluster", "--pods", path, "--kubeconfig", kubeconfig))
    assert problem == f"{path}: Pod research/p is in the file twice; keep one"


def test_pods_of_the_own_namespace_are_named(kubeconfig: Path, written: Written) -> None:
    path = written("pod.yaml", asking())
    assert "research/ours" in run("explain", "-f", path, "--kubeconfig", kubeconfig).stdout
    assert "research/ours" not in run("explain", "-f", path, "--kubeconfig", kubeconfig, "-n", "web").stdout
