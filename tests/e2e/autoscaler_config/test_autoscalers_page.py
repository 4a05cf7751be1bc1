"""The page on autoscalers and its samples, before Karpenter's and KEDA's definitions in a real API server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scheduler_ext.features.autoscaling.node_groups.karpenter import karpenter_objects
from scheduler_ext.features.autoscaling.node_groups.table import load_node_groups
from tests.e2e.cluster.api import eventually
from tests.e2e.cluster.binaries import find_module
from tests.e2e.documented import Reader, running_reader
from tests.e2e.test_manifests import DRY_RUN
from tests.features.autoscaling.node_groups.tables import SHARES, SLICES, SPOT, group, sliced, table_bytes
from tests.kube_objects import Json
from tests.pages import ROOT, blocks, section

pytestmark = pytest.mark.release

PAGE = ROOT / "docs" / "features" / "autoscaling" / "autoscalers.md"
DEFINITIONS = {
    "sigs.k8s.io/karpenter": "pkg/apis/crds",
    "github.com/kedacore/keda/v2": "config/crd/bases/keda.sh_scaledobjects.yaml",
}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Has a cluster with the definitions of both, and neither of them. The tables of the page are saved."""
    with running_reader(tmp_path_factory, installs=False) as reader:
        for module, files in DEFINITIONS.items():
            reader.run_block(
                f"kubectl apply --server-side -f {find_module(Path(__file__).parent, module) / files}"
            )
        asked = reader.cluster.plane.try_kubectl
        eventually(
            lambda: asked("get", "nodepools,nodeoverlays,scaledobjects", "-A").returncode == 0,
            "all objects are served",
        )
        for heading, name in (("## The table of node groups", "groups"), ("## GKE", "gke-groups")):
            (table,) = blocks(section(PAGE.read_text(), heading), "yaml")
            (reader.checkout / f"{name}.yaml").write_text(table)
        yield reader


def test_karpenter_takes_the_objects_of_the_page(reader: Reader) -> None:
    (block,) = blocks(section(PAGE.read_text(), "## Karpenter"), "sh")
    told = reader.run_block(block)
    names = [each["name"] for each in yaml.safe_load((reader.checkout / "groups.yaml").read_text())["groups"]]
    assert [name for name in names if f"nodepool.karpenter.sh/{name} " not in told] == []
    kept = reader.api.get("/apis/karpenter.sh/v1alpha1/nodeoverlays/l4-shares")["spec"]["capacity"]
    assert kept == {"nvidia.com/gpu": "0", "gpu.scheduler-ext.io/memory-mib": "82920"}


@pytest.mark.parametrize(
    ("heading", "script", "word"),
    [("## cluster-autoscaler", "cluster-autoscaler.sh", "aws"), ("## GKE", "gke.sh", "gcloud")],
)
def test_the_commands_of_the_page_make_a_script(reader: Reader, heading: str, script: str, word: str) -> None:
    """Its commands reach a cloud; here they only show their words."""
    (block,) = blocks(section(PAGE.read_text(), heading), "sh")
    reader.run_block(block)
    said = reader.run_block(f"{word}() {{ echo {word} $#; }}; . ./{script}")
    assert re.search(rf"^{word} [1-9]", said, re.M)
    if word == "aws":
        path = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-priority-expander"
        priorities = yaml.safe_load(reader.api.get(path)["data"]["priorities"])
        assert all(isinstance(rank, int) and patterns for rank, patterns in priorities.items())


def test_the_other_commands_of_the_page(reader: Reader) -> None:
    for block in blocks(section(PAGE.read_text(), "## Startup taint"), "sh"):
        reader.run_block(block)


def objects() -> Json:
    """Those of groups of every kind."""
    groups = [
        group("spot", **SPOT, taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]),
        group("shares", **SHARES, labels={"team": "a"}),
        group("slices", **SLICES),
        group("mixed", **sliced(p3g_40gb=1, p1g_10gb=3)),
        group("single", **sliced("single", p3g_40gb=2)),
    ]
    return karpenter_objects(load_node_groups(table_bytes(*groups)))


def test_karpenters_definitions_accept_every_kind_of_group(reader: Reader) -> None:
    done = reader.cluster.plane.try_kubectl(*DRY_RUN, "-f", "-", stdin=json.dumps(objects()))
    assert (done.returncode, done.stderr) == (0, "")


def test_the_commands_about_keda(reader: Reader) -> None:
    page = (ROOT / "docs" / "tasks" / "scale-on-gpu-metrics.md").read_text()
    (block,) = blocks(section(page, "## KEDA"), "sh")
    reader.run_block("kubectl create namespace batch")
    reader.run_block(block)
