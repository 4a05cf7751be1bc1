"""The DaemonSet's agents on a real control plane: their reports, the use of them, and recovery from
faults.
"""

from __future__ import annotations

from typing import Any

from scheduler_ext.core.node.node_labels import AGENT_LABEL
from tests.agent.fake_kubelet import devices, pod
from tests.agent.nvml_mock.presets import h100, t4
from tests.e2e.agents.gpu_host import NAMESPACE, GpuHost
from tests.e2e.cluster.api import Json, eventually
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


def health(host: GpuHost) -> Json:
    found: Json = host.devices()[0]["health"]
    return found


def test_an_agent_that_is_killed_goes_on_where_it_was(workload: Workload) -> None:
    """Neither silence nor a new agent heals a broken GPU."""
    host = GpuHost(workload, "h100", h100(0))
    host.await_report()
    host.machine.events.append((48, "GPU-h100-0"))
    host.machine.write()
    eventually(lambda: health(host)["state"] == "Unhealthy", "the agent says that it is sick")
    before = host.report()["status"]
    host.agent().containers["agent"].kill()
    # It writes when it starts, whatever it reported before.
    after = eventually(
        lambda: (now := host.report()["status"])["sequence"] > before["sequence"] and now, "it writes again"
    )
    assert after["bootID"] == before["bootID"]
    assert after["devices"][0]["uuid"] == before["devices"][0]["uuid"]
    assert health(host)["reason"] == "XID 48: double-bit ECC error; needs a GPU reset"


def test_a_recreated_node_is_reported_again(workload: Workload) -> None:
    host = GpuHost(workload, "t4", t4(0))
    before = host.await_report()["metadata"]["ownerReferences"][0]["uid"]
    workload.api.delete(f"/api/v1/nodes/{host.name}")
    host.add_node("t4")
    after = workload.api.get(f"/api/v1/nodes/{host.name}")["metadata"]["uid"]

    def owner() -> Any:
        return host.report().get("metadata", {}).get("ownerReferences", [{}])[0].get("uid")

    assert after != before
    eventually(lambda: owner() == after, "its GPUNode belongs to the new Node", 90.0)


def test_holders_come_from_the_kubelet(workload: Workload) -> None:
    """The agent also survives its restart, which creates the socket again."""
    host = GpuHost(workload, "h100", h100(0), h100(1))
    host.await_report()
    holder = workload.create(workload.pod(ONE))
    assert workload.await_node(holder) == host.name
    held = pod(holder, *devices("nvidia.com/gpu", "GPU-h100-1"), namespace=workload.namespace)

    def holders() -> list[list[str]]:
        return [[each["name"] for each in device.get("holders", [])] for device in host.devices()]

    host.kubelet.pods = [held]
    host.kubelet.start()
    eventually(lambda: holders() == [[], [holder]], "the second GPU is held", 30.0)
    host.kubelet.stop()
    host.kubelet.pods = []
    host.kubelet.start()
    eventually(lambda: holders() == [[], []], "no GPU is held", 60.0)
    host.kubelet.stop()


def test_an_operator_cordons_a_gpu(workload: Workload) -> None:
    host = GpuHost(workload, "t4", t4(0))
    host.await_report()
    cordon = ("annotate", "gpunode", host.name, "gpu.scheduler-ext.io/cordoned=GPU-t4-0")
    before = workload.installation.generations()
    workload.installation.plane.kubectl(*cordon)
    workload.installation.await_inventory(1, before)
    name = workload.create(workload.pod(ONE))
    workload.await_event(name, "FailedScheduling")
    workload.installation.plane.kubectl(*cordon[:-1], "gpu.scheduler-ext.io/cordoned-")
    # Nothing that kube-scheduler watches has changed: the extender causes the retry.
    assert workload.await_node(name) == host.name
