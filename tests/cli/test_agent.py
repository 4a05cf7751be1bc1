"""`scheduler-ext agent` as a process: on a fake driver, beside a fake kubelet, before a fake API server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.agent.crd_rules import refusals
from tests.agent.fake_kubelet import devices, pod
from tests.agent.nvml_mock.library import build_library
from tests.cli.agents import GPU, Agent, World, healthy, holders
from tests.cluster.api.api_faults import Hang
from tests.cluster.api.api_paths import GPU_NODES, NODES
from tests.kube_objects import gpu, gpu_node, inventory, node
from tests.pages import ROOT
from tests.server.process.server_process import eventually

pytestmark = pytest.mark.process

LOST = "GPU is lost; needs a reset or a reboot of the node"
TRAIN = {"namespace": "ml", "name": "train", "container": "main"}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def world(tmp_path: Path, library: Path) -> Iterator[World]:
    built = World(tmp_path, library)
    yield built
    built.stop()


class TestOnce:
    def test_once_prints_the_object_and_writes_nothing(self, world: World) -> None:
        world.kubelet.start()
        done = subprocess.run(
            [sys.executable, "-m", "scheduler_ext", "agent", "--once", *world.local],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, **world.environment, "NODE_NAME": "n"},
        )
        printed = yaml.safe_load(done.stdout)
        assert (printed["kind"], printed["metadata"]) == ("GPUNode", {"name": "n"})
        status = printed["status"]
        assert refusals(status) == []
        assert status["summary"] == {
            "gpus": 2,
            "healthy": 2,
            "model": "A100-80GB, H100-80GB",
            "memoryUsedPercent": 0,
        }
        assert status["devices"][1]["holders"] == [TRAIN]
        assert world.server.log.count() == 0

    def test_without_a_driver_it_says_so(self, world: World) -> None:
        world.driver.faults = {"nvmlInitWithFlags": 9}
        world.driver.write()
        agent = Agent("--once", "--node-name", "n", *world.local, env=world.environment)
        try:
            assert agent.wait() == 1
            assert agent.lines[-2] == "Error: no GPU can be read: the NVIDIA driver is not loaded"
            # One time.
            assert sum("driver is not loaded" in line for line in agent.lines) == 1
        finally:
            agent.close()

    def test_in_a_cluster_it_prints_what_would_be_written(self, world: World) -> None:
        labels = {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.replicas": "4"}
        world.server.store.put(NODES, node("n", uid="uid-1", labels=labels))
        agent = world.on_node()
        world.reported()
        world.driver.gpus[1].faults = {"*": 15}
        world.driver.write()
        written = world.reported(healthy(1))
        agent.signal(signal.SIGTERM)
        assert agent.wait() == 0
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

    def test_a_cluster_that_is_not_there_is_an_error(self, world: World) -> None:
        done = self.once(world, "--kubeconfig", "/nonexistent")
        assert (done.returncode, done.stdout) == (1, "")
        assert "Error: kubeconfig /nonexistent: " in done.stderr
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


class TestOnANode:
    def test_the_agent_reports_changes_that_matter_at_once(self, world: World) -> None:
        world.kubelet.start()
        world.on_node()
        first = world.reported()
        assert refusals(first) == []
        assert (first["sequence"], len(first["bootID"])) == (1, 36)
        assert first["devices"][1]["holders"] == [TRAIN]
        world.driver.events = [(79, "GPU-h100-1")]
        world.driver.write()
        sick = world.reported(healthy(1))["devices"][1]["health"]
        assert sick.pop("lastErrorAt")
        assert sick == {
            "state": "Unhealthy",
            "reason": "XID 79: GPU has fallen off the bus; needs a reboot of the node",
            "recovery": "Reboot",
        }
        world.driver.gpus[0].mig = False
        world.driver.write()
        world.reported(lambda status: status["devices"][0]["mig"]["enabled"] is False)

    def test_an_api_server_that_goes_and_comes_back(self, world: World) -> None:
        agent = world.on_node()
        world.reported()
        world.server.stop()
        world.driver.gpus[1].faults = {"*": 15}
        world.driver.write()
        agent.wait_for_line("report not written, trying again")
        world.server.start()
        world.reported(healthy(1))
        agent.wait_for_line("reports are written again")

    def test_a_report_that_was_deleted_with_its_node_or_alone(self, world: World) -> None:
        world.on_node()
        world.reported()
        world.server.store.delete(NODES, "n")
        world.server.store.delete(GPU_NODES, "n")
        world.server.store.put(NODES, node("n", uid="uid-2"))
        world.driver.gpus[1].faults = {"*": 15}
        world.driver.write()
        world.reported(lambda status: healthy(1)(status) and status["sequence"] == 1)
        assert world.owners() == ["uid-1", "uid-2"]
        world.server.store.delete(GPU_NODES, "n")
        world.driver.gpus[0].faults = {"*": 15}
        world.driver.write()
        world.reported(lambda status: healthy(0)(status) and status["sequence"] == 1)
        assert world.owners() == ["uid-1", "uid-2", "uid-2"]

    def test_a_new_agent_does_not_forget_a_lost_gpu(self, world: World) -> None:
        agent = world.on_node()
        world.reported()
        world.driver.gpus[1].faults = {"*": 15, "nvmlDeviceGetHandleByIndex_v2": 15}
        world.driver.write()
        before = world.reported(healthy(1))["devices"]
        agent.signal(signal.SIGTERM)
        assert agent.wait() == 0
        world.server.log.clear()
        world.on_node()
        after = world.reported()["devices"]
        assert [(device["uuid"], device["health"].get("reason")) for device in after] == [
            ("GPU-a100-0", None),
            ("GPU-h100-1", LOST),
        ]
        assert after[1]["model"] == before[1]["model"] == "H100-80GB"

    def test_gpus_that_were_never_known_are_not_written_off(self, world: World) -> None:
        for lost in world.driver.gpus:
            lost.faults = {"nvmlDeviceGetHandleByIndex_v2": 15}
        world.driver.write()
        agent = world.on_node()
        agent.wait_for_line("no GPU of this node can be used: no GPU returns its UUID: GPU is lost")
        assert world.server.log.all(lambda request: request.path.endswith("/status")) == []

    def test_plugins_that_register_again_change_nothing(self, world: World) -> None:
        world.kubelet.offered = devices(GPU, "GPU-h100-1::0", "GPU-h100-1::1")
        world.kubelet.start()
        world.on_node()
        world.reported(lambda status: status.get("sharing") == {"strategy": "time-slicing", "replicas": 2})
        world.kubelet.stop()
        world.kubelet.offered = []
        world.kubelet.start()
        world.server.log.clear()
        world.driver.gpus[0].mig = False
        world.driver.write()
        written = world.reported(lambda status: status["devices"][0]["mig"]["enabled"] is False)
        assert written["sharing"] == {"strategy": "time-slicing", "replicas": 2}

    def test_looks_cost_next_to_nothing(self, world: World) -> None:
        world.kubelet.start()
        agent = world.on_node()
        world.reported()

        def looks() -> int:
            return world.driver.calls()["nvmlDeviceGetCount_v2"]

        def seconds() -> float:
            fields = Path(f"/proc/{agent.process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        first, began = looks(), seconds()
        eventually(lambda: looks() >= first + 30)
        # Less than 1 % of a core at one look in five seconds, with a margin for slow machines.
        assert (seconds() - began) / (looks() - first) < 0.05
        status = Path(f"/proc/{agent.process.pid}/status").read_text()
        (resident,) = re.findall(r"^VmHWM:\s+([0-9]+) kB", status, re.MULTILINE)
        assert int(resident) < 90 * 1024

    def test_a_driver_of_another_version_ends_it(self, world: World) -> None:
        agent = world.on_node()
        world.reported()
        world.driver.faults = {"*": 18}
        world.driver.write()
        assert agent.wait() == 1
        assert "the driver was replaced while this process ran; exiting" in agent.stderr

    def test_a_kubelet_that_restarts(self, world: World) -> None:
        world.kubelet.start()
        world.on_node()
        world.reported(holders("train"))
        world.kubelet.stop()
        world.kubelet.pods = [pod("next", *devices(GPU, "GPU-h100-1"))]
        world.kubelet.start()
        # A change of holders alone would be reported within ten seconds.
        world.driver.gpus[0].mig = False
        world.driver.write()
        world.reported(holders("next"))


class TestTheEnd:
    def test_between_two_looks(self, world: World) -> None:
        agent = world.agent("--node-name", "n", *world.local, "--interval", "60s")
        world.reported()
        agent.signal(signal.SIGTERM)
        assert agent.wait(40) == 0

    def test_while_the_api_server_does_not_answer(self, world: World) -> None:
        world.server.faults.place(Hang(), times=None)
        agent = world.on_node()
        world.server.log.wait_for()
        agent.signal(signal.SIGTERM)
        # The agent would wait half a minute for the answer.
        assert agent.wait(25) == 0


SIGNAL_INSIDE_WAIT = """
import os, signal, sys
from scheduler_ext.cli.agent import stopped_by_signals

stopped = stopped_by_signals()
with stopped._cond:  # as `wait` holds it
    os.kill(os.getpid(), signal.SIGTERM)
sys.exit(0 if stopped.wait(1) else 3)
"""


def test_a_signal_in_the_middle_of_a_wait_ends_the_agent() -> None:
    ended = subprocess.run([sys.executable, "-c", SIGNAL_INSIDE_WAIT], cwd=ROOT, timeout=30, check=False)
    assert ended.returncode == 0


def test_the_agent_imports_no_module_that_it_does_not_need(world: World) -> None:
    world.kubelet.start()
    agent = world.agent("--node-name", "n", *world.local, PYTHONPROFILEIMPORTTIME="1")
    world.reported()
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0
    imported = {line.rpartition("|")[2].strip() for line in agent.lines if line.startswith("import time:")}
    assert {"kubernetes", "pynvml", "grpc", "scheduler_ext.agent.loop"} <= imported
    others = {
        "numpy",
        "flask",
        "gunicorn",
        "prometheus_client",
        "scheduler_ext.extender",
        "scheduler_ext.server",
    }
    assert others & imported == set()


class TestFake:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "gpus.json"
        path.write_bytes(inventory(gpu_node("n", [gpu(0)]), gpu_node("m", [gpu(0), gpu(1)])))
        return path

    def test_many_nodes_and_a_file_that_changes(self, world: World, file: Path) -> None:
        agent = world.agent("--fake", str(file))
        world.reported()
        # The Node does not exist yet, which is a separate problem.
        agent.wait_for_line("m: report not written, trying again")
        world.server.store.put(NODES, node("m", uid="uid-m"))
        assert refusals(world.reported(healthy(2), "m")) == []
        sick = gpu(0, health={"state": "Unhealthy", "reason": "played"})
        file.write_bytes(inventory(gpu_node("n", [sick]), gpu_node("m", [gpu(0)])))
        assert world.reported(healthy(0))["devices"][0]["health"]["reason"] == "played"
        world.reported(healthy(1), "m")
        file.write_text("kind: [")
        agent.wait_for_line("the last good content of the file is reported")
        agent.signal(signal.SIGTERM)
        assert agent.wait() == 0

    def test_only_those_that_are_named(self, world: World, file: Path) -> None:
        world.server.store.put(NODES, node("m", uid="uid-m"))
        world.agent("--fake", str(file), "--node-name", "m")
        world.reported(name="m")
        assert {request.path.split("/")[-2] for request in world.server.log.all()} <= {
            "m",
            "nodes",
            "gpunodes",
        }
        assert world.server.log.all(lambda request: "/n" in request.path.replace("/nodes", "")) == []

    def test_a_name_that_is_not_in_the_file(self, world: World, file: Path) -> None:
        agent = world.agent("--fake", str(file), "--node-name", "x")
        assert agent.wait() == 1
        assert agent.lines[-2] == f"Error: {file}: no GPUNode x in it"
