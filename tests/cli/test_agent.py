"""`scheduler-ext agent` as a process: on a fake driver, beside a fake kubelet, before a fake API server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scheduler_ext.agent.gpu_health import REPAIRED_ANNOTATION
from scheduler_ext.wire.times import time_text
from tests.agent.crd_rules import refusals
from tests.agent.nvml_mock.library import build_library
from tests.cli.agents import PROBE, Agent, World, healthy
from tests.cluster.api.api_faults import Hang
from tests.cluster.api.api_paths import GPU_NODES, NODES
from tests.kube_objects import gpu, gpu_node, inventory, node
from tests.pages import ROOT
from tests.server.process.server_process import eventually

pytestmark = pytest.mark.process

LOST = "GPU is lost; needs a reset or a reboot of the node"
TRAIN = {"namespace": "ml", "name": "train", "container": "main"}
# One call sleeps longer than any test.
FOR_EVER_US = 1_000_000_000


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def world(tmp_path: Path, library: Path) -> Iterator[World]:
    built = World(tmp_path, library)
    yield built
    built.stop()


def end(agent: Agent) -> None:
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0


class TestOnce:
    def test_without_a_cluster(self, world: World) -> None:
        world.kubelet.start()
        done = self.once(world)
        assert (done.returncode, world.server.log.count()) == (0, 0)
        printed = yaml.safe_load(done.stdout)
        assert (printed["kind"], printed["metadata"]) == ("GPUNode", {"name": "n"})
        assert refusals(printed["status"]) == []
        assert printed["status"]["summary"] == {
            "gpus": 2,
            "healthy": 2,
            "model": "A100-80GB, H100-80GB",
            "memoryUsedPercent": 0,
        }
        assert printed["status"]["devices"][1]["holders"] == [TRAIN]

    def test_in_a_cluster_it_prints_what_would_be_written(self, world: World) -> None:
        labels = {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.replicas": "4"}
        world.server.store.put(NODES, node("n", uid="uid-1", labels=labels))
        agent = world.on_node()
        world.reported()
        world.driver.gpus[1].faults = {"*": 15}
        world.driver.write()
        written = world.reported(healthy(1))
        end(agent)
        # Finished, but less than five minutes ago.
        world.driver.gpus[1].faults = {}
        world.driver.write()
        world.server.log.clear()
        printed = yaml.safe_load(self.once(world, *world.cluster).stdout)["status"]
        assert refusals(printed) == []
        assert printed["devices"][1]["health"]["reason"] == LOST
        same = ("migStrategy", "sharing", "bootID", "summary")
        assert {key: printed[key] for key in same} == {key: written[key] for key in same}
        assert (printed["migStrategy"], printed["sharing"]["replicas"]) == ("single", 4)
        assert printed["sequence"] == written["sequence"] + 1
        assert {request.method for request in world.server.log.all()} == {"GET"}

    def test_errors_are_one_line(self, world: World) -> None:
        world.driver.faults = {"nvmlInitWithFlags": 9}
        world.driver.write()
        done = self.once(world)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines()[-1] == "Error: no GPU can be read: the NVIDIA driver is not loaded"
        world.driver.faults = {}
        world.driver.write()
        world.server.store.delete(NODES, "n")
        done = self.once(world, *world.cluster)
        assert (done.returncode, done.stdout) == (1, "")
        assert "Error: 404 NotFound" in done.stderr

    def once(self, world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "scheduler_ext", "agent", "--once", *world.local, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, **world.environment, "NODE_NAME": "n"},
        )


def test_a_node_whose_gpu_breaks_and_is_repaired(world: World) -> None:
    """Before an API server that goes away in between, and by two agents, one after the other."""
    world.kubelet.start()
    agent = world.on_node()
    first = world.reported()
    assert refusals(first) == []
    assert (first["sequence"], len(first["bootID"])) == (1, 36)
    assert first["devices"][1]["holders"] == [TRAIN]
    world.server.stop()
    world.driver.events = [(79, "GPU-h100-1")]
    world.driver.write()
    agent.wait_for_line("report not written, trying again")
    world.server.start()
    sick = world.reported(healthy(1))["devices"][1]["health"]
    assert (sick["state"], sick["recovery"]) == ("Unhealthy", "Reboot")
    agent.wait_for_line("reports are written again")
    end(agent)
    world.server.log.clear()
    agent = world.on_node()
    assert world.reported()["devices"][1]["health"] == sick, "the new agent has seen no XID"
    stored = world.server.store.collection(GPU_NODES).get(None, "n")
    assert stored is not None
    changed = stored.object()
    ahead = time_text(world.server.clock() + 1)
    changed["metadata"]["annotations"] = {REPAIRED_ANNOTATION: f"GPU-h100-1@{ahead}"}
    world.server.store.put(GPU_NODES, changed)
    # The agent writes at once, and sees the annotation in the answer.
    world.driver.gpus[0].mig = False
    world.driver.write()
    world.reported(healthy(2))
    agent.wait_for_line("an operator repaired it, forgetting: XID 79")


class TestTheEnd:
    def test_between_two_looks(self, world: World) -> None:
        agent = world.agent(
            "--node-name", "n", *world.local, "--interval", "60s", PYTHONPROFILEIMPORTTIME="1"
        )
        world.reported()
        end(agent)
        imported = {
            line.rpartition("|")[2].strip() for line in agent.lines if line.startswith("import time:")
        }
        assert {"kubernetes", "pynvml", "grpc", "scheduler_ext.agent.loop"} <= imported
        large = {"numpy", "flask", "gunicorn", "prometheus_client", "scheduler_ext.extender"}
        assert large & imported == set()

    def test_while_the_api_server_does_not_answer(self, world: World) -> None:
        world.server.faults.place(Hang(), times=None)
        agent = world.on_node()
        world.server.log.wait_for()
        end(agent)

    def test_in_a_driver_call_that_hangs(self, world: World) -> None:
        agent = world.on_node("--stuck-after", "4s")
        world.reported()
        world.driver.delays_us = {"nvmlDeviceGetMemoryInfo_v2": FOR_EVER_US}
        world.driver.write()
        assert agent.wait() == 1
        assert "a call to the GPU driver has not returned for 4 s; exiting" in agent.stderr

    def test_in_a_library_that_hangs_while_it_is_loaded(self, world: World, tmp_path: Path) -> None:
        """The call keeps Python's lock, so that no other thread runs: only the probe sees it."""
        source, hanging = tmp_path / "hang.c", tmp_path / "libhang.so"
        source.write_text(
            "#include <unistd.h>\n__attribute__((constructor)) static void hang(void) { for (;;) pause(); }\n"
        )
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(hanging), str(source)], check=True)
        heartbeat = tmp_path / "heartbeat"
        watched = ("--stuck-after", "1s", "--heartbeat", str(heartbeat))
        agent = world.agent("--node-name", "n", "--nvml-library", str(hanging), *watched)

        def probe() -> str:
            command = [sys.executable, *PROBE[1:-1], str(heartbeat)]
            return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT).stderr

        try:
            eventually(lambda: "is stuck" in probe())
            assert agent.process.poll() is None
        finally:
            agent.process.kill()


SIGNAL_INSIDE_WAIT = """
import os, signal, sys
from scheduler_ext.cli.agent import stopped_by_signals

stopped = stopped_by_signals()
with stopped._cond:  # as `wait` holds it
    os.kill(os.getpid(), signal.SIGTERM)
sys.exit(0 if stopped.wait(60) else 3)
"""


def test_a_signal_in_the_middle_of_a_wait_ends_the_agent() -> None:
    ended = subprocess.run([sys.executable, "-c", SIGNAL_INSIDE_WAIT], cwd=ROOT, timeout=90, check=False)
    assert ended.returncode == 0


def test_a_file_that_changes(world: World, tmp_path: Path) -> None:
    file = tmp_path / "gpus.json"
    file.write_bytes(inventory(gpu_node("n", [gpu(0)]), gpu_node("m", [gpu(0), gpu(1)])))
    agent = world.agent("--fake", str(file))
    world.reported()
    # The Node does not exist yet, which is a separate problem.
    agent.wait_for_line("m: report not written, trying again")
    world.server.store.put(NODES, node("m", uid="uid-m"))
    assert refusals(world.reported(healthy(2), "m")) == []
    sick = gpu(0, health={"state": "Unhealthy", "reason": "played"})
    file.write_bytes(inventory(gpu_node("n", [sick]), gpu_node("m", [gpu(0)])))
    assert world.reported(healthy(0))["devices"][0]["health"]["reason"] == "played"
    end(agent)
