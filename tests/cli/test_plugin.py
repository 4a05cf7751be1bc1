"""kubectl gpu-placement: found by kubectl, completed by it, and about kubectl's cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler_ext.main import plugin
from tests.cli.commands import CLUSTER, WHOLE, Written, run, serving
from tests.kube_objects import pod

SCRIPTS = Path(sys.executable).parent


def script(name: str, *arguments: str) -> tuple[int, str]:
    done = subprocess.run([str(SCRIPTS / name), *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.process
def test_kubectl_finds_it_and_its_completions() -> None:
    code, out = script("kubectl-gpu_placement", "--version")
    assert (code, out.startswith("kubectl gpu-placement, version ")) == (0, True)
    code, out = script("kubectl_complete-gpu_placement", "n")
    assert (code, [line.partition("\t")[0] for line in out.splitlines()]) == (0, ["node", "nodes", ":4"])
    # Where a file is wanted, kubectl is left to complete it.
    assert script("kubectl_complete-gpu_placement", "capacity", "-f", "man") == (0, ":0\n")


def test_its_commands_ask_the_cluster_of_kubectl(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = str(written("pod.yaml", pod("p", {WHOLE: "1"})))
    with serving(*CLUSTER) as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
        for words in ("nodes --from cluster", f"explain -f {asking}", f"capacity -f {asking}"):
            arguments = words.split()
            done = CliRunner().invoke(plugin, [*arguments, "-o", "name"])
            assert (done.exit_code, done.stdout) == (0, run(*arguments, "-o", "name").stdout)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_their_completion_script(shell: str) -> None:
    done = run("completion", shell)
    assert (done.exit_code, "_SCHEDULER_EXT_COMPLETE" in done.stdout) == (0, True)
