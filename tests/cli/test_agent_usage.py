"""`scheduler-ext agent`: its command line, its output for a readings file, and the probe of its DaemonSet."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from scheduler_ext.agent import alive
from tests.agent.crd_rules import refusals
from tests.cli.agents import CONTAINER, PROBE
from tests.cli.commands import error_of, run
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import gpu, gpu_node, inventory
from tests.pages import ROOT


@pytest.fixture(autouse=True)
def unlogged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command takes over the logs and, where it runs for long, the signals of its process."""
    root, kept = logging.getLogger(), logging.getLogger().handlers[:]
    level = root.level
    handled = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)}
    monkeypatch.delenv("NODE_NAME", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    yield
    root.handlers[:] = kept
    root.setLevel(level)
    for number, handler in handled.items():
        signal.signal(number, handler)


def test_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "gpus.json"
    file.write_bytes(inventory(gpu_node("n", [gpu(0)]), gpu_node("m", [gpu(0), gpu(1)])))
    result = run("agent", "--once", "--fake", file)
    assert (result.exit_code, result.stderr) == (0, "")
    printed = list(yaml.safe_load_all(result.stdout))
    assert [one["metadata"]["name"] for one in printed] == ["n", "m"]
    assert [refusals(one["status"]) for one in printed] == [[], []]
    monkeypatch.setenv("NODE_NAME", "m")
    assert yaml.safe_load(run("agent", "--once", "--fake", file).stdout) == printed[1]
    told = error_of(run("agent", "--once", "--fake", file, "--node-name", "x"))
    assert told == f"{file}: no GPUNode x in it"


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        ("--once", 2, "--node-name: give the one Node whose GPUs these are"),
        ("--once --node-name a --node-name b", 2, "--node-name: give"),
        ("--once --node-name=", 2, "'' is not a valid Node name"),
        ("--node-name n", 2, "nowhere to report to: give --kubeconfig"),
        ("--node-name n --in-cluster --kubeconfig x", 2, "are two clusters"),
        ("--once --fake x --in-cluster", 2, "leave out --kubeconfig and --in-cluster"),
        ("--once --interval 0s", 2, "0s is outside 50ms to 1m"),
        ("--once --interval 5", 2, "'5' is no duration"),
        ("--once --fake /missing", 1, "Error: /missing: No such file or directory"),
        ("--node-name n --kubeconfig /missing", 1, "Error: kubeconfig /missing: "),
        ("--node-name n --in-cluster", 1, "Error: not in a cluster: "),
    ],
)
def test_errors(arguments: str, code: int, problem: str) -> None:
    result = run("agent", *arguments.split())
    assert (result.exit_code, result.stdout) == (code, "")
    assert problem in result.stderr


def test_a_heartbeat_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with ApiServer() as server:
        reported = ("--node-name", "n", "--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"))
        told = error_of(run("agent", *reported, "--heartbeat", "/missing/heartbeat"))
    assert told == "--heartbeat: /missing/heartbeat cannot be written: No such file or directory"


def test_the_manifest_probes_the_file_that_the_agent_writes() -> None:
    assert PROBE[0] == "python3"
    assert f"--heartbeat={PROBE[-1]}" in CONTAINER["args"]
    mounts = {mount["mountPath"]: mount for mount in CONTAINER["volumeMounts"]}
    assert not mounts[str(Path(PROBE[-1]).parent)].get("readOnly")


def test_the_probe_fails_when_a_heartbeat_is_overdue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1000.0]
    monkeypatch.setattr(alive, "time", SimpleNamespace(monotonic=lambda: now[0]))
    file = tmp_path / "heartbeat"
    pulse = alive.Pulse(4.0, str(file))

    def probed(at: float) -> int:
        now[0] = at
        return alive.main([str(file)])

    # The watchdog in the process acts a quarter earlier.
    assert [probed(1005.0), probed(1005.5)] == [0, 1]
    # A pause of a minute, as announced.
    pulse.beat(60.0)
    assert [probed(1070.5), probed(1071.5)] == [0, 1]
    assert capsys.readouterr().err.endswith("its heartbeat is overdue by 1 s\n")
    for text in ("", "soon", "\x00" * 24):
        file.write_text(text)
        assert probed(0.0) == 1
        assert capsys.readouterr().err.startswith("the agent has not started: ")
    assert alive.main([]) == 2


def test_the_probe_imports_next_to_nothing() -> None:
    """The probe runs on every GPU node, again and again."""
    counting = (
        "import sys; known = set(sys.modules)\n"
        "import scheduler_ext.agent.alive; print(*sorted(set(sys.modules) - known))"
    )
    command = [sys.executable, "-c", counting]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    imported = {"__future__", "scheduler_ext", "scheduler_ext.agent", "scheduler_ext.agent.alive"}
    assert set(done.stdout.split()) <= imported
