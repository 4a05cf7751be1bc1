"""The pages in docs/tasks/platforms, followed from the first command to the last on nodes like theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.agents.gpunode_api import PATH as GPU_NODES
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.documented import Reader, running_reader
from tests.e2e.platforms.platform_nodes import (
    AKS,
    EKS,
    EKS_AUTO_MODE,
    EKS_BOTTLEROCKET,
    GKE,
    K3S,
    KUBEADM,
    NVKIND,
    OPENSHIFT,
    RUNTIME_CLASS,
    GpuNode,
)
from tests.pages import ROOT, blocks

pytestmark = pytest.mark.release

PAGES = ROOT / "docs" / "tasks" / "platforms"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Has a cluster in which nothing is installed, and a checkout."""
    with running_reader(tmp_path_factory, installs=False) as reader:
        yield reader


def shell(page: str) -> list[str]:
    return blocks((PAGES / page).read_text(), "sh")


def follow(reader: Reader, commands: list[str]) -> None:
    """Run them, until a pod is on the node."""
    for block in commands:
        told = reader.run_block(block)
        assert reader.names["NODE"] in told or "pod one-gpu -o wide" not in block


@pytest.mark.parametrize(
    ("page", "nodes"),
    [
        # With the component for Bottlerocket, a node of Auto Mode needs no label.
        pytest.param(
            "eks.md",
            {"NODE": EKS, "BOTTLEROCKET_NODE": EKS_BOTTLEROCKET, "AUTO_MODE_NODE": EKS_AUTO_MODE},
            id="EKS",
        ),
        pytest.param("gke.md", {"NODE": GKE}, id="GKE"),
        pytest.param("aks.md", {"NODE": AKS}, id="AKS"),
        pytest.param("openshift.md", {"NODE": OPENSHIFT}, id="OpenShift"),
        pytest.param("k3s.md", {"NODE": K3S}, id="k3s"),
        pytest.param("kubeadm.md", {"NODE": KUBEADM}, id="kubeadm"),
    ],
)
def test_a_page(reader: Reader, page: str, nodes: dict[str, GpuNode]) -> None:
    """To the reports of all GPUs, and to a pod on the node."""
    if nodes["NODE"].runtime_classes:
        reader.api.create(RUNTIME_CLASSES, RUNTIME_CLASS)
    reader.names = {placeholder: node.name for placeholder, node in nodes.items()}
    for node in nodes.values():
        node.join(reader.cluster)
    try:
        follow(reader, shell(page))
        for node in nodes.values():
            eventually(lambda node=node: len(devices(reader, node.name)) == len(node.gpus), node.name)  # type: ignore[misc]
    finally:
        for node in nodes.values():
            node.leave(reader.cluster)
        reader.api.delete(f"{RUNTIME_CLASSES}/nvidia")


def devices(reader: Reader, node: str) -> list[Json]:
    """The reported GPUs of a node."""
    return [
        device
        for each in reader.api.items(GPU_NODES)
        if each["metadata"]["name"] == node
        for device in each.get("status", {}).get("devices", ())
    ]


def test_the_page_on_kind(reader: Reader) -> None:
    """Its two parts are for two clusters."""
    simulated, *real = shell("kind.md")
    reader.run_block(simulated)
    assert reader.api.items(GPU_NODES)
    reader.run_block("kubectl delete nodes -l type=kwok")
    reader.run_block("kubectl delete gpunodes --all")
    reader.names = {"NODE": NVKIND.name}
    NVKIND.join(reader.cluster)
    try:
        follow(reader, real)
    finally:
        NVKIND.leave(reader.cluster)


def test_the_comparison(reader: Reader) -> None:
    (versions,) = shell("README.md")
    told = reader.run_block(versions)
    (version,) = {line.rpartition(" ")[2] for line in told.splitlines() if line.startswith("Server Version")}
    assert f"kube-scheduler:{version} " in told
