"""A node whose machine has GPUs according to NVML and the kubelet; the DaemonSet's agent on it is real."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from tests.agent.fake_kubelet import FakeKubelet
from tests.agent.nvml_mock.library import FakeGpu, FakeNode, build_library
from tests.e2e.agents.gpunode_api import PATH as GPU_NODES
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.running_pod import RunningPod
from tests.e2e.workload import Workload

NAMESPACE = "gpu-scheduler-agent"
PRESENT = {"nvidia.com/gpu.present": "true", "kubernetes.io/os": "linux"}
_PODS = "/var/lib/kubelet/pod-resources"


@cache
def library() -> Path:
    """The fake NVML, built once per run."""
    return build_library(Path(mkdtemp(prefix="nvml-")))


class GpuHost:
    """`gpus` may be changed and written; `kubelet` assigns devices to pods, once started."""

    def __init__(self, workload: Workload, stem: str, *gpus: FakeGpu, labels: Json = PRESENT) -> None:
        self.workload = workload
        self._labels = labels
        self.name = workload.name(stem)
        self._kubelet = workload.installation.kubelet
        host = self._kubelet.host(self.name)
        self.machine = FakeNode(host.path("/run/nvml"), gpus=list(gpus))
        self.machine.write()
        host.environment = {**self.machine.environment, "LD_LIBRARY_PATH": str(library().parent)}
        self.kubelet = FakeKubelet(host.path(_PODS) / "kubelet.sock")
        self.add_node(stem)

    def add_node(self, stem: str) -> None:
        """The Node object with the resources that its device plugin would advertise."""
        self.workload.add_node(stem, {"nvidia.com/gpu": str(len(self.machine.gpus))}, labels=self._labels)

    def agent(self) -> RunningPod:
        """The agent's pod on this node."""

        def found() -> RunningPod | None:
            agents = self._kubelet.running(NAMESPACE, **{"app.kubernetes.io/component": "agent"})
            return next((pod for pod in agents if pod.node == self.name), None)

        return eventually(found, f"an agent runs on {self.name}")

    def report(self) -> Json:
        """Its present GPUNode; empty while there is none, or none with a status."""
        found = self.workload.api.items(GPU_NODES, fieldSelector=f"metadata.name={self.name}")
        return found[0] if found and "status" in found[0] else {}

    def await_report(self) -> Json:
        """Its GPUNode, as soon as the agent has written a status."""
        return eventually(self.report, f"{self.name} is reported on")

    def devices(self) -> list[Json]:
        """The devices of its report."""
        devices: list[Json] = self.report().get("status", {}).get("devices", [])
        return devices
