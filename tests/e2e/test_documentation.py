"""The commands of the quickstart, and of the README and of installing: each on a fresh cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.cluster.api import eventually
from tests.e2e.cluster.whole import PLAIN_NODES
from tests.e2e.documented import Reader, running_reader
from tests.kube_objects import GFD_H100
from tests.pages import ROOT, blocks, section

GFD_A100 = GFD_H100 | {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "4"}


def test_the_quickstart(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_reader(tmp_path_factory, installs=False) as reader:
        *first, remove, labels = blocks((ROOT / "docs/quickstart.md").read_text(), "sh")
        told = [reader.run_block(block) for block in first]
        assert reader.node_of("half-an-h100-node") == "h100-02", "h100-01 has only three GPUs left"
        assert "h100-02" in told[-1]
        reader.run_block(remove)
        nodes = {node["metadata"]["name"] for node in reader.api.items("/api/v1/nodes")}
        assert nodes == set(PLAIN_NODES)
        reader.run_block(labels)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with running_reader(tmp_path_factory, installs=False) as reader:
        for name, labels, gpus in (("a100-1", GFD_A100, "4"), ("h100-1", GFD_H100, "8")):
            room = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": gpus}
            node = {"metadata": {"name": name, "labels": labels}, "status": {"capacity": room}}
            reader.api.create("/api/v1/nodes", node)
        eventually(lambda: "allocatable" in reader.api.get("/api/v1/nodes/h100-1")["status"], "nodes")
        reader.run("README.md", "## Install on a cluster")
        reader.write_pod()
        yield reader


def test_the_readme_on_a_pod(reader: Reader) -> None:
    reader.run("README.md", "## Use it from a pod")
    assert reader.node_of("three-a100") == "a100-1"


def test_the_page_on_installing_from_the_inventory_to_removing(reader: Reader) -> None:
    """After the README: the page continues from there."""
    reader.run_block("kubectl apply -f pod.yaml")
    assert reader.node_of("three-a100") == "a100-1"
    reader.run("docs/tasks/install.md", "## The inventory")
    reader.run("docs/tasks/install.md", "## Another configuration")
    # test_identities.py covers the tokens afterwards.
    reader.run("docs/tasks/install.md", "## The extender's token")
    extender = "kubectl -n gpu-scheduler get configmaps -o yaml | grep -c 'strategy: binpack'"
    assert int(reader.run_block(extender)) >= 1
    # The first pod has three of the four GPUs.
    reader.write_pod(("three-a100", "one-more"), ('"3"', '"1"'))
    (block,) = blocks(section((ROOT / "docs/tasks/install.md").read_text(), "## Why a pod waits"), "sh")
    assert "a100-1" in reader.run_block(block)
    reader.run("docs/tasks/install.md", "## Uninstalling")
    left = reader.run_block("kubectl get all,configmaps,leases -n gpu-scheduler -o name")
    assert left == ""
    cluster_wide = "kubectl get namespaces,crds,clusterroles,clusterrolebindings -o name"
    assert [name for name in reader.run_block(cluster_wide).splitlines() if "gpu" in name] == []
    assert reader.node_of("three-a100") == "a100-1", "what runs stays"
