"""`scheduler-ext agent` as a process, with a fake node and cluster around it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import yaml

from tests.agent.fake_kubelet import FakeKubelet, devices, pod
from tests.agent.nvml_mock.library import FakeNode
from tests.agent.nvml_mock.presets import a100_80gb_mig, h100
from tests.cluster.api.api_paths import GPU_NODES, NODES
from tests.cluster.api.api_requests import Request
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import Json, node
from tests.pages import ROOT
from tests.server.process.server_process import ServerProcess, eventually

GPU = "nvidia.com/gpu"
DAEMON_SET = yaml.safe_load((ROOT / "manifests/agent/daemonset.yaml").read_text())
CONTAINER = DAEMON_SET["spec"]["template"]["spec"]["containers"][0]
PROBE: list[str] = CONTAINER["livenessProbe"]["exec"]["command"]


class Agent(ServerProcess):
    """The command as a process."""

    MODULE: ClassVar[tuple[str, ...]] = ("scheduler_ext", "agent")


class World:
    """The surroundings of an agent on the node n; started only on request."""

    def __init__(self, directory: Path, library: Path) -> None:
        self.directory = directory
        self.server = ApiServer()
        self.server.start()
        self.server.store.put(NODES, node("n", uid="uid-1"))
        self.driver = FakeNode(directory, [a100_80gb_mig(0), h100(1)])
        self.driver.write()
        self.kubelet = FakeKubelet(directory / "kubelet.sock")
        self.kubelet.pods = [pod("train", *devices(GPU, "GPU-h100-1"))]
        self.environment = {**self.driver.environment, "NODE_NAME": ""}
        self.local = ("--nvml-library", str(library), "--pod-resources", str(self.kubelet.socket))
        self.cluster = ("--kubeconfig", str(self.server.kubeconfig(directory / "kubeconfig")))
        self._agents: list[Agent] = []

    def agent(self, *arguments: str, **environment: str) -> Agent:
        """An agent that looks ten times a second."""
        started = Agent(*self.cluster, "--interval", "100ms", *arguments, env=self.environment | environment)
        self._agents.append(started)
        return started

    def on_node(self, *arguments: str) -> Agent:
        """The agent of the node."""
        return self.agent("--node-name", "n", *self.local, *arguments)

    def stop(self) -> None:
        for agent in self._agents:
            agent.close()
        self.kubelet.stop()
        self.server.stop()

    def reported(self, matches: Callable[[Json], bool] = lambda status: True, name: str = "n") -> Json:
        """The first written status that matches."""

        def is_wanted(request: Request) -> bool:
            path = f"{GPU_NODES}/{name}/status"
            return request.path == path and matches(request.json()["status"])

        found: Json = self.server.log.wait_for(is_wanted)[-1].json()["status"]
        # A request is recorded before it is done; the next one may already be there.
        eventually(lambda: self._is_done(found, self._stored(name)))
        return found

    @staticmethod
    def _is_done(told: Json, stored: Json | None) -> bool:
        return stored is not None and (stored == told or bool(stored["sequence"] > told["sequence"]))

    def _stored(self, name: str) -> Json | None:
        entry = self.server.store.collection(GPU_NODES).get(None, name)
        return entry.object().get("status") if entry is not None else None


def healthy(count: int) -> Callable[[Json], bool]:
    return lambda status: bool(status["summary"]["healthy"] == count)
