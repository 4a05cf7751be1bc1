"""The commands of the pages in docs/tasks and of the runbooks, run on a cluster with one GPU node."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.agent.nvml_mock.presets import h100
from tests.e2e.agents.gpu_host import GpuHost
from tests.e2e.documented import Reader, running_reader
from tests.e2e.installation import Installation
from tests.e2e.workload import Workload
from tests.pages import ROOT, blocks

pytestmark = pytest.mark.release

TASKS = ROOT / "docs" / "tasks"
FEATURES = ROOT / "docs" / "features"
RUNBOOKS = ROOT / "docs" / "runbooks"
# Their commands run on clusters of their own.
ELSEWHERE = {"CertificateExpiry.md", "GPUBindConflictsHigh.md", "GPUSharePodsUnplaced.md"}
# Objects that the Prometheus Operator would install.
MONITORS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.monitoring.coreos.com}}
spec:
  group: monitoring.coreos.com
  names: {{kind: {kind}, plural: {plural}}}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Has installed the product, and one pod on a node with two GPUs."""
    with running_reader(tmp_path_factory) as reader:
        host = GpuHost(Workload(Installation(reader.cluster)), "gpus", h100(0), h100(1))
        host.await_report()
        host.machine.write()
        # The reader of the agent's page is on the node.
        programs = reader.checkout / "bin"
        programs.mkdir()
        (programs / "hostname").write_text(f"#!/bin/sh\necho {host.name}\n")
        (programs / "hostname").chmod(0o755)
        reader.names = {"NODE": host.name, "POD": "three-a100", "NAMESPACE": "default"}
        reader.environment = {**host.workload.installation.kubelet.host(host.name).environment}
        reader.write_pod(('"A100-80GB"', '"H100"'), ('"3"', '"1"'))
        reader.run_block("kubectl apply -f pod.yaml")
        assert reader.node_of("three-a100") == host.name
        yield reader


def shell(page: Path) -> list[str]:
    return blocks(page.read_text(), "sh")


def test_the_page_on_agents(reader: Reader) -> None:
    label, leave, once = shell(TASKS / "agent.md")
    reader.run_block(label)
    node = reader.cluster.plane.api.get(f"/api/v1/nodes/{reader.names['NODE']}")
    assert node["metadata"]["labels"]["gpu.scheduler-ext.io/agent"] == "true"
    reader.run_block(leave)
    programs = f"PATH={reader.checkout}/bin:$PATH"
    told = reader.run_block(f"export {programs}\n{once}")
    assert told.count("H100") >= 2


def test_the_page_on_the_live_page(reader: Reader) -> None:
    (command,) = shell(FEATURES / "page" / "page.md")
    with reader.start(command) as forward:
        try:
            assert forward.stdout is not None
            assert "Forwarding from 127.0.0.1" in forward.stdout.readline()
            with urlopen(f"http://127.0.0.1:{reader.forwarded_port}/", timeout=5) as answer:
                assert b"<title>" in answer.read()
        finally:
            forward.send_signal(signal.SIGINT)


def test_the_page_on_the_queue(reader: Reader) -> None:
    (command,) = shell(FEATURES / "gangs" / "queue.md")
    reader.write_pod(("three-a100", "waits"), ('"A100-80GB"', '"H100"'), ('"3"', '"9"'))
    reader.run_block("kubectl apply -f pod.yaml")
    assert "waits" in reader.run_block(command)


def test_the_page_on_the_plugin(reader: Reader) -> None:
    (command,) = shell(TASKS / "kubectl-plugin.md")
    told = reader.run_block(command)
    assert "three-a100" in told
    assert reader.names["NODE"] in told


def test_the_page_on_monitoring(reader: Reader) -> None:
    for kind in ("PodMonitor", "PrometheusRule"):
        definition = MONITORS.format(kind=kind, plural=f"{kind.lower()}s")
        reader.run_block(f"kubectl apply -f - <<'END'\n{definition}\nEND")
    reader.run_block("kubectl wait --for=condition=Established crd --all")
    add, admit, label, links = shell(TASKS / "monitoring.md")
    reader.run_block(add)
    reader.run_block("kubectl create namespace monitoring")
    reader.run_block(admit)
    chosen = reader.run_block("kubectl get namespaces -l gpu.scheduler-ext.io/metrics=true -o name")
    assert chosen.split() == ["namespace/monitoring"]
    reader.run_block(label)
    reader.run_block(links)
    reader.run_block("kubectl apply --server-side -k my-cluster")
    rules = reader.run_block("kubectl -n gpu-scheduler get prometheusrules -o yaml")
    assert "release: kube-prometheus-stack" in rules
    assert set(re.findall(r"runbook_url: (\S+)/docs/", rules)) == {"https://git.example/scheduler-ext"}


def test_the_page_on_scaling(reader: Reader) -> None:
    reader.run_block("kubectl create namespace batch")
    # KEDA's definitions are in autoscaler_config/test_autoscalers_page.py.
    command, _ = shell(TASKS / "scale-on-gpu-metrics.md")
    assert "gpus_for_workers" in reader.run_block(command)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem)
        for page in sorted(RUNBOOKS.glob("*.md"))
        if shell(page) and page.name not in ELSEWHERE
    ],
)
def test_a_runbook(reader: Reader, page: Path) -> None:
    reader.follow(f"docs/runbooks/{page.name}")
