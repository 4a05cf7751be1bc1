"""`scheduler-ext agent` as a process that hangs or is slow, and the probe of its DaemonSet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scheduler_ext.agent.alive import main
from tests.agent.nvml_mock.library import build_library
from tests.cli.agents import World
from tests.cluster.api.api_faults import Hang
from tests.kube_objects import gpu, gpu_node, inventory
from tests.pages import ROOT
from tests.server.process.server_process import eventually

DAEMON_SET = yaml.safe_load((ROOT / "manifests/agent/daemonset.yaml").read_text())
CONTAINER = DAEMON_SET["spec"]["template"]["spec"]["containers"][0]
COMMAND = CONTAINER["livenessProbe"]["exec"]["command"]
# Longer than a busy machine may delay a working agent.
STUCK_S = 4.0
# One call sleeps longer than any test.
FOR_EVER_US = 1_000_000_000


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("nvml"))


class Node(World):
    """This agent takes a call of four seconds as hanging."""

    @property
    def heartbeat(self) -> Path:
        return self.directory / "heartbeat"

    @property
    def watched(self) -> tuple[str, ...]:
        return ("--stuck-after", f"{STUCK_S:g}s", "--heartbeat", str(self.heartbeat))

    def probe(self) -> subprocess.CompletedProcess[str]:
        """The probe's command, on a file of this machine."""
        command = [sys.executable, *COMMAND[1:-1], str(self.heartbeat)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)

    def passes(self) -> bool:
        return self.probe().returncode == 0


@pytest.fixture
def node(tmp_path: Path, library: Path) -> Iterator[Node]:
    built = Node(tmp_path, library)
    yield built
    built.stop()


def test_the_manifest_probes_the_file_that_the_agent_writes() -> None:
    assert COMMAND[0] == "python3"
    assert f"--heartbeat={COMMAND[-1]}" in CONTAINER["args"]
    mounts = {mount["mountPath"]: mount for mount in CONTAINER["volumeMounts"]}
    assert not mounts[str(Path(COMMAND[-1]).parent)].get("readOnly")


@pytest.mark.process
def test_an_agent_that_goes_on_passes(node: Node) -> None:
    assert "the agent has not started" in node.probe().stderr
    node.agent("--node-name", "n", *node.local, *node.watched)
    node.reported()
    until = time.monotonic() + 1.5 * STUCK_S
    while time.monotonic() < until:
        assert node.passes()


@pytest.mark.process
def test_a_long_pause_between_two_looks_passes(node: Node) -> None:
    node.agent("--node-name", "n", *node.local, *node.watched, "--interval", "60s")
    node.reported()
    time.sleep(1.5 * STUCK_S)
    assert node.passes()


@pytest.mark.process
def test_a_driver_that_only_answers_slowly_passes(node: Node) -> None:
    """Each call takes a tenth of the bound, and a whole look more than the bound."""
    agent = node.agent("--node-name", "n", *node.local, *node.watched)
    node.reported()
    slow = ("nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo_v2")
    node.driver.delays_us = dict.fromkeys(slow, 400_000)
    node.driver.write()
    node.driver.forget_calls()
    looks = 0
    until = time.monotonic() + 60
    while looks < 3 and time.monotonic() < until:
        assert node.passes()
        looks = node.driver.calls()["nvmlDeviceGetCount_v2"]
    calls = node.driver.calls()
    # The last look is not over.
    assert sum(calls[name] for name in slow) / looks * 0.4 > STUCK_S * (looks - 1) / looks
    assert agent.process.poll() is None


@pytest.mark.process
def test_a_driver_call_that_hangs_ends_the_agent(node: Node) -> None:
    agent = node.agent("--node-name", "n", *node.local, *node.watched)
    node.reported()
    node.driver.delays_us = {"nvmlDeviceGetMemoryInfo_v2": FOR_EVER_US}
    node.driver.write()
    assert agent.wait() == 1
    assert "a call to the GPU driver has not returned for 4 s; exiting" in agent.stderr
    eventually(lambda: not node.passes())


@pytest.mark.process
def test_a_library_that_hangs_while_it_is_loaded_fails(node: Node, tmp_path: Path) -> None:
    """The call keeps Python's lock, so that no other thread runs."""
    source, hanging = tmp_path / "hang.c", tmp_path / "libhang.so"
    source.write_text(
        "#include <unistd.h>\n__attribute__((constructor)) static void hang(void) { for (;;) pause(); }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(hanging), str(source)], check=True)
    agent = node.agent("--node-name", "n", "--nvml-library", str(hanging), *node.watched)
    try:
        eventually(lambda: node.heartbeat.exists())
        eventually(lambda: "is stuck" in node.probe().stderr)
        assert agent.process.poll() is None
    finally:
        agent.process.kill()


@pytest.mark.process
def test_a_process_that_is_stopped_fails(node: Node) -> None:
    agent = node.agent("--node-name", "n", *node.local, *node.watched, "--interval", "1s")
    node.reported()
    assert node.passes()
    agent.signal(signal.SIGSTOP)
    try:
        eventually(lambda: not node.passes())
    finally:
        agent.signal(signal.SIGCONT)


@pytest.mark.process
def test_an_api_server_that_does_not_answer_passes(node: Node) -> None:
    node.server.faults.place(Hang(), times=None)
    node.agent("--node-name", "n", *node.local, *node.watched)
    node.server.log.wait_for()
    time.sleep(1.5 * STUCK_S)
    assert node.passes()


@pytest.mark.process
def test_the_pulse_beats_for_nodes_of_a_file_too(node: Node, tmp_path: Path) -> None:
    file = tmp_path / "gpus.json"
    file.write_bytes(inventory(gpu_node("n", [gpu(0)])))
    node.agent("--fake", str(file), *node.watched)
    node.reported()
    time.sleep(1.5 * STUCK_S)
    assert node.passes()


def test_a_file_that_cannot_be_written_is_an_error(node: Node) -> None:
    agent = node.agent("--node-name", "n", *node.local, "--heartbeat", "/nonexistent/heartbeat")
    assert agent.wait() == 1
    assert "Error: --heartbeat: /nonexistent/heartbeat cannot be written: No such file" in agent.stderr


@pytest.mark.parametrize("text", ["", "soon", "\x00" * 24])
def test_a_file_that_says_nothing_fails(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "heartbeat"
    file.write_text(text)
    assert main([str(file)]) == 1
    assert capsys.readouterr().err.startswith("the agent has not started: ")


def test_the_probe_needs_its_file() -> None:
    assert main([]) == 2


def test_the_probe_imports_next_to_nothing() -> None:
    """The probe runs on every GPU node, again and again."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import scheduler_ext.agent.alive"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONNOUSERSITE": "1"},
    )
    imported = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()]
    begun = imported.index("site")
    assert set(imported[begun + 1 :]) <= {
        "scheduler_ext",
        "scheduler_ext.agent",
        "scheduler_ext.agent.alive",
        "__future__",
        # Python 3.13 keeps the source of -c in it.
        "linecache",
    }
