"""Nodes as kubeadm and NVIDIA's device plugin make them: GPUs in allocatable, and no label about them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scheduler_ext.core.node.node_labels import AGENT_LABEL
from tests.agent.nvml_mock.presets import h100, t4
from tests.e2e.agents.gpu_host import NAMESPACE, GpuHost
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.whole import running_cluster
from tests.e2e.installation import MANIFESTS, Installation
from tests.e2e.workload import Workload
from tests.kube_objects import ANNOTATION, gpu

ONE = {"nvidia.com/gpu": "1"}
OF_KUBEADM = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
SICK = {"state": "Unhealthy", "reason": "XID 79"}


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
        assert host.await_report()["status"]["devices"]
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


@pytest.fixture(scope="module")
def unreported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workload]:
    """A cluster of its own whose nodes stay without an agent, with an extender that soon misses reports."""
    with running_cluster(tmp_path_factory.mktemp("unreported")) as cluster:
        installation = Installation(cluster)
        configure(installation, "allow")
        workload = Workload(installation)
        yield workload
        workload.close()


def configure(installation: Installation, unreported: str) -> None:
    """Install the base with this setting, or change it, as docs/tasks/install.md does."""
    folder = installation.plane.directory / f"unreported-{unreported}"
    folder.mkdir()
    ages = {"staleAfter": "2s", "missingAfter": "3s"}
    config = {
        "apiVersion": "config.scheduler-ext.io/v1alpha1",
        "kind": "ExtenderConfiguration",
        "inventory": {"unreported": unreported, "labelNodes": False, **ages},
    }
    (folder / "extender.yaml").write_text(json.dumps(config))
    generated = {
        "name": "gpu-scheduler-config",
        "namespace": "gpu-scheduler",
        "behavior": "merge",
        "files": ["extender.yaml"],
    }
    base = Path(
        "..", *[".."] * len(folder.relative_to("/").parts[:-1]), (MANIFESTS / "base").relative_to("/")
    )
    kustomization = {"resources": [str(base)], "configMapGenerator": [generated]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    installation.plane.kubectl("apply", "--server-side", "-k", folder)
    installation.await_rollout()
    # The pods of the former configuration end meanwhile.
    installation.await_ready()


def await_missing(workload: Workload, nodes: int, counted: int) -> None:
    """Wait until so many nodes are Missing, and so many take pods by their allocatable, for each extender."""
    installation = workload.installation

    def known() -> bool:
        return all(
            installation.metric_of(pod, "gpu_extender_inventory_nodes", state="Missing") == nodes
            and installation.metric_of(pod, "gpu_extender_nodes_by_allocatable") == counted
            for pod in installation.pods()
        )

    eventually(known, f"{nodes} nodes are missing, {counted} count by allocatable")


def refused(workload: Workload, pod: Json) -> str:
    """Create a pod that fits nowhere; the note of its event. The pod is removed again."""
    name = workload.create(pod)
    note = str(workload.await_event(name, "FailedScheduling")["note"])
    workload.remove(name)
    return note


def test_nodes_that_nobody_reports_on(unreported: Workload) -> None:
    """On kube-scheduler itself: `allow` hands out what is left, and `refuse` nothing."""
    workload = unreported
    plain = workload.add_node("plain", {"nvidia.com/gpu": "2"}, labels=OF_KUBEADM)
    await_missing(workload, 1, 1)
    wish = workload.pod(ONE, annotations={f"{ANNOTATION}model": "H100"})
    assert "1 node(s) had no fresh GPU inventory" in refused(workload, wish), "its model is unknown"
    assert [workload.place_seen(workload.pod(ONE)) for _ in range(2)] == [plain, plain]
    assert "3 Insufficient nvidia.com/gpu" in refused(workload, workload.pod(ONE))

    silent = workload.add_node("silent", {"nvidia.com/gpu": "2"}, labels=OF_KUBEADM)
    workload.report(silent, [gpu(0, "GPU-sick", health=SICK), gpu(1, "GPU-well")])
    workload.publish()
    await_missing(workload, 2, 2)
    assert workload.place_seen(workload.pod(ONE)) == silent
    assert "1 node(s) had unhealthy GPUs" in refused(workload, workload.pod(ONE))

    configure(workload.installation, "refuse")
    spare = workload.add_node("spare", {"nvidia.com/gpu": "1"}, labels=OF_KUBEADM)
    await_missing(workload, 3, 0)
    assert "2 node(s) had no fresh GPU inventory" in refused(workload, workload.pod(ONE))
    said = workload.installation.explain(workload.pod(ONE))
    assert {each["node"] for each in said["nodes"]} >= {plain, silent, spare}
    eventually(lambda: "GPUNodeUnlabelled" in reasons(workload, spare), "an Event has the command")
    assert AGENT_LABEL not in labels(workload, spare)
