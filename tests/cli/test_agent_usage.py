"""`scheduler-ext agent`: its command line, and its output for a readings file."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.agent.crd_rules import refusals
from tests.cli.commands import error_of, run
from tests.kube_objects import gpu, gpu_node, inventory


@pytest.fixture
def unlogged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command takes over the logs and, where it runs for long, the signals of its process."""
    root, kept = logging.getLogger(), logging.getLogger().handlers[:]
    level = root.level
    handled = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)}
    monkeypatch.delenv("NODE_NAME", raising=False)
    yield
    root.handlers[:] = kept
    root.setLevel(level)
    for number, handler in handled.items():
        signal.signal(number, handler)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gpus.json"
    path.write_bytes(inventory(gpu_node("n", [gpu(0)]), gpu_node("m", [gpu(0), gpu(1)])))
    return path


def test_once(file: Path, unlogged: None) -> None:
    result = run("agent", "--once", "--fake", file)
    assert (result.exit_code, result.stderr) == (0, "")
    printed = list(yaml.safe_load_all(result.stdout))
    assert [one["metadata"]["name"] for one in printed] == ["n", "m"]
    assert [refusals(one["status"]) for one in printed] == [[], []]
    result = run("agent", "--once", "--fake", file, "--node-name", "m")
    assert yaml.safe_load(result.stdout) == printed[1]


def test_mistakes(file: Path, unlogged: None) -> None:
    told = error_of(run("agent", "--once", "--fake", file, "--node-name", "x"))
    assert told == f"{file}: no GPUNode x in it"
    missing = file.with_name("missing")
    assert error_of(run("agent", "--once", "--fake", missing)) == f"{missing}: No such file or directory"


class TestUsage:
    @pytest.mark.parametrize(
        ("args", "problem"),
        [
            pytest.param(["--once"], "--node-name: give the one Node whose GPUs these are", id="no node"),
            pytest.param(
                ["--once", "--node-name", "a", "--node-name", "b"],
                "--node-name: give the one Node",
                id="two nodes",
            ),
            pytest.param(["--once", "--node-name", ""], "'' is not a valid Node name", id="no name"),
            pytest.param(
                ["--once", "--node-name", "$(NODE_NAME)"],
                "'$(NODE_NAME)' is not a valid",
                id="a variable not set",
            ),
            pytest.param(["--node-name", "n"], "nowhere to report to: give --kubeconfig", id="no cluster"),
            pytest.param(
                ["--node-name", "n", "--in-cluster", "--kubeconfig", "x"],
                "are two clusters",
                id="two clusters",
            ),
            pytest.param(
                ["--once", "--node-name", "n", "--in-cluster", "--kubeconfig", "x"],
                "are two clusters",
                id="two clusters to look at",
            ),
            pytest.param(
                ["--once", "--fake", "x", "--in-cluster"],
                "leave out --kubeconfig and --in-cluster",
                id="a cluster for a file",
            ),
            pytest.param(["--once", "--interval", "0s"], "0s is outside 50ms to 1m", id="no interval"),
            pytest.param(["--once", "--interval", "5"], "'5' is no duration", id="no unit"),
            pytest.param(["--once", "--recover-after", "2d"], "'2d' is no duration", id="no such unit"),
        ],
    )
    def test_mistakes_are_exit_2(self, unlogged: None, args: list[str], problem: str) -> None:
        result = run("agent", *args)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("Usage: scheduler-ext agent")
        assert problem in result.stderr

    @pytest.mark.parametrize(
        ("args", "problem"),
        [
            pytest.param(["--kubeconfig", "/nowhere"], "kubeconfig /nowhere: ", id="no kubeconfig"),
            pytest.param(["--in-cluster"], "not in a cluster: ", id="not in a cluster"),
        ],
    )
    def test_clusters_that_are_none_are_exit_1(
        self, unlogged: None, monkeypatch: pytest.MonkeyPatch, args: list[str], problem: str
    ) -> None:
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        assert error_of(run("agent", "--node-name", "n", *args)).startswith(problem)

    def test_the_node_name_may_be_in_the_environment(
        self, unlogged: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NODE_NAME", "n")
        result = run("agent")
        assert "nowhere to report to" in result.stderr


def test_the_help_says_what_its_cluster_is_for() -> None:
    told = " ".join(run("agent", "--help").output.split())
    assert "Kubeconfig of the cluster that gets the reports." in told
    assert "Without a cluster, Node labels are unknown." in told
