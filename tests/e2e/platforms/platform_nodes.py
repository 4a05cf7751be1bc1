"""GPU nodes as each platform makes them: labels, taints, version, and how a container gets the driver."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from tests.agent.nvml_mock.library import FakeGpu, FakeNode
from tests.agent.nvml_mock.presets import h100, t4
from tests.e2e.agents.gpu_host import NAMESPACE as AGENTS
from tests.e2e.agents.gpu_host import library
from tests.e2e.agents.gpunode_api import PATH as GPU_NODES
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.whole import Cluster

RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}
_PRESENT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
# GKE's directory of the driver, where a runtime would provide it.
_GKE_DRIVER = "/home/kubernetes/bin/nvidia"


def says(*words: str) -> Callable[[Json], bool]:
    """Whether a pod's specification has all of these in its JSON."""
    return lambda pod: all(each in json.dumps(pod["spec"]) for each in words)


_ALL = '{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}'
# The NVIDIA runtime runs every pod, and reads the environment of its containers; or the pods with its
# RuntimeClass; or it reads volume mounts. Without it, privileged containers have the devices of the host.
default_runtime = says(_ALL)
runtime_class = says(_ALL, '"runtimeClassName": "nvidia"')
volume_mounts = says('"mountPath": "/var/run/nvidia-container-devices/all"', '"path": "/dev/null"')
no_runtime = says('"privileged": true', '"mountPath": "/dev"', '"path": "/dev"')


@dataclass(frozen=True, slots=True)
class GpuNode:
    """`gives_gpus` says to which pods the runtime gives GPUs. `installed` is the driver's place on the host,
    or empty if the runtime provides it. `runtime_classes`: the platform has the RuntimeClass `nvidia`.
    """

    name: str
    gpus: tuple[FakeGpu, ...]
    labels: dict[str, str]
    version: str
    gives_gpus: Callable[[Json], bool] = default_runtime
    taints: tuple[dict[str, str], ...] = ()
    installed: str = ""
    runtime_classes: bool = False

    def join(self, cluster: Cluster) -> None:
        """Add it to the cluster."""
        host = cluster.kubelet.host(self.name)
        machine = FakeNode(host.path("/run/nvml"), list(self.gpus), driver="580.95.05", cuda=13000)
        machine.write()
        host.environment, host.gives_gpus = machine.environment, self.gives_gpus
        if self.installed:
            shutil.copytree(library().parent, host.path(self.installed) / "lib64")
        else:
            host.environment = {**host.environment, "LD_LIBRARY_PATH": str(library().parent)}
        # Too small for the pods of the scheduler: they stay when this node leaves.
        room = {"cpu": "300m", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(len(self.gpus))}
        usual = {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux"}
        node = {
            "metadata": {"name": self.name, "labels": usual | self.labels},
            "spec": {"taints": list(self.taints)},
            "status": {"capacity": room, "nodeInfo": {"kubeletVersion": self.version}},
        }
        cluster.plane.api.create("/api/v1/nodes", node)

    def leave(self, cluster: Cluster) -> None:
        """Remove it with its agent."""
        api = cluster.plane.api
        for path in (f"/api/v1/nodes/{self.name}", f"{GPU_NODES}/{self.name}"):
            api.delete(path)
        pods = f"/api/v1/namespaces/{AGENTS}/pods"

        def gone() -> bool:
            mine = [each for each in api.items(pods) if each["spec"].get("nodeName") == self.name]
            for each in mine:
                api.delete(f"{pods}/{each['metadata']['name']}", grace_s=0)
            return not mine

        eventually(gone, f"no agent runs on {self.name}")


_T4S = tuple(t4(number) for number in range(4))
_H100S = tuple(h100(number) for number in range(8))
EKS = GpuNode("ip-10-0-3-17.ec2.internal", _T4S, {}, "v1.36.3-eks-113cf36")
EKS_BOTTLEROCKET = GpuNode("ip-10-0-9-4.ec2.internal", _T4S, {}, EKS.version, gives_gpus=volume_mounts)
EKS_AUTO_MODE = GpuNode(
    "i-0abc123def456",
    _T4S,
    {"eks.amazonaws.com/instance-gpu-manufacturer": "nvidia"},
    EKS.version,
    gives_gpus=volume_mounts,
)
GKE = GpuNode(
    "gke-my-cluster-gpus-8a7c-x1fd",
    _T4S[:2],
    {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"},
    "v1.36.3-gke.1099000",
    gives_gpus=no_runtime,
    taints=(_PRESENT,),
    installed=_GKE_DRIVER,
)
AKS = GpuNode(
    "aks-gpus-31207845-vmss000000",
    _T4S,
    {"kubernetes.azure.com/accelerator": "nvidia"},
    "v1.36.3",
    taints=({"key": "sku", "value": "gpu", "effect": "NoSchedule"},),
)
OPENSHIFT = GpuNode(
    "gpu-worker-0.example.com",
    _H100S,
    {"nvidia.com/gpu.present": "true"},
    "v1.36.3",
    gives_gpus=runtime_class,
    runtime_classes=True,
)
K3S = GpuNode("gpu-1", _T4S[:2], {}, "v1.36.3+k3s1", gives_gpus=runtime_class, runtime_classes=True)
KUBEADM = GpuNode("worker-1", _H100S, {}, "v1.36.3")
NVKIND = GpuNode("gpus-worker", _T4S[:1], {}, "v1.36.3")
