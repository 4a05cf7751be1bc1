"""kubectl gpu-placement: found by kubectl, completed by it, and about kubectl's cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from scheduler_ext.cli import main
from scheduler_ext.cli.plugin import plugin
from tests.cli.commands import WHOLE, Written, run
from tests.cluster.api.api_paths import GPU_NODES, NODES
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import gpu, gpu_node, node, pod

pytestmark = pytest.mark.process

SCRIPTS = Path(sys.executable).parent


def script(name: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [str(SCRIPTS / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **env})


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    with ApiServer() as server:
        server.store.put(NODES, node("n", {WHOLE: "2"}))
        server.store.put(GPU_NODES, gpu_node("n", [gpu(0), gpu(1)]))
        yield str(server.kubeconfig(tmp_path / "kubeconfig"))


def test_the_plugin_has_the_name_that_kubectl_looks_for() -> None:
    done = script("kubectl-gpu_placement", "--help")
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        0,
        "Usage: kubectl gpu-placement [OPTIONS] COMMAND [ARGS]...",
    )
    assert script("kubectl-gpu_placement", "--version").stdout.startswith("kubectl gpu-placement, version ")


@pytest.mark.parametrize("command", [plugin, main], ids=["the plugin", "scheduler-ext"])
def test_commands_of_the_plugin_ask_the_cluster_of_kubectl(
    kubeconfig: str, written: Written, monkeypatch: pytest.MonkeyPatch, command: click.Group
) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    asking = str(written("pod.yaml", pod("p", {WHOLE: "1"})))
    for arguments, told in (
        (["nodes", "-o", "name", "--from", "cluster"], "node/n"),
        (["capacity", "-f", asking], "Additional pods that fit: 2"),
        (["explain", "-f", asking], "Fits; best: n"),
        (["simulate", "cluster", "--pods", asking], "1 of 1 pods fit"),
        (["idle", "-o", "yaml"], "kind: IdlePodList"),
        (["cost"], "6.80 USD per hour for 2 GPUs"),
        (["recommend", "-o", "yaml"], "kind: RecommendationList"),
    ):
        done = CliRunner().invoke(command, arguments)
        assert (done.exit_code, told in done.stdout) == (0, True), done.output


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        pytest.param(["n"], ["nodes", "node"], id="a command begun"),
        pytest.param(["pods", "-o", "w"], ["wide"], id="a choice of an option"),
        pytest.param(["why", "--extender"], ["--extender-namespace"], id="an option begun"),
    ],
)
def test_kubectl_completes_it(words: list[str], completed: list[str]) -> None:
    lines = script("kubectl_complete-gpu_placement", *words).stdout.splitlines()
    assert lines[-1] == ":4"
    assert {line.partition("\t")[0] for line in lines[:-1]} == set(completed)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_their_completion_script(shell: str) -> None:
    done = run("completion", shell)
    assert done.exit_code == 0
    assert "_SCHEDULER_EXT_COMPLETE" in done.stdout
    assert run("completion", "cmd").exit_code == 2
