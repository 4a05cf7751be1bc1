"""Nodes as kubeadm and NVIDIA's device plugin make them: GPUs in allocatable, and no label about them."""

from __future__ import annotations

from scheduler_ext.core.node.node_labels import AGENT_LABEL
from tests.agent.nvml_mock.presets import h100, t4
from tests.e2e.agents.gpu_host import NAMESPACE, GpuHost
from tests.e2e.cluster.api import Json
from tests.e2e.workload import Workload
from tests.kube_objects import ANNOTATION

ONE = {"nvidia.com/gpu": "1"}
OF_KUBEADM = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def labels(workload: Workload, node: str) -> Json:
    found: Json = workload.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"]
    return found


def reasons(workload: Workload, node: str) -> list[str]:
    """The reasons of the Events about a node."""
    found = workload.api.items(EVENTS, fieldSelector=f"regarding.name={node}")
    return [str(each["reason"]) for each in found]


def test_plain_nodes_get_agents_without_a_command(workload: Workload) -> None:
    """A pod that names a model then finds its GPU, though no label states the model."""
    hosts = {
        name: GpuHost(workload, name, gpus(0), labels=OF_KUBEADM) for name, gpus in (("h", h100), ("t", t4))
    }
    cpu = workload.add_node("cpu", {}, labels=OF_KUBEADM)
    kept = workload.add_node("kept", ONE, labels=OF_KUBEADM | {AGENT_LABEL: "false"})
    for host in hosts.values():
        report = host.await_report()
        assert report["status"]["summary"]["gpus"] == 1
        assert {each["manager"] for each in report["metadata"]["managedFields"]} == {"scheduler-ext-agent"}
        assert labels(workload, host.name) == OF_KUBEADM | {
            "kubernetes.io/hostname": host.name,
            AGENT_LABEL: "true",
        }
        assert reasons(workload, host.name) == ["GPUNodeLabelled"]
    for model, name in (("H100", "h"), ("T4", "t")):
        wish = {f"{ANNOTATION}model": model}
        assert workload.place(workload.pod(ONE, annotations=wish)) == hosts[name].name
    assert AGENT_LABEL not in labels(workload, cpu)
    assert labels(workload, kept)[AGENT_LABEL] == "false"
    agents = workload.api.items(f"/api/v1/namespaces/{NAMESPACE}/pods")
    assert not {cpu, kept} & {each["spec"].get("nodeName") for each in agents}
