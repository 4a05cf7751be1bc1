"""The reference of labels has exactly the Node labels that are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import pytest

from scheduler_ext.core.node.estimate import caps_from_labels, estimate_from_labels
from scheduler_ext.core.node.node_labels import (
    VALUE_LABEL,
    change_in_progress,
    handed_out_by,
    is_spot,
    node_pool,
    one_replica,
)
from scheduler_ext.wire.node_info import SHARE_NODE_LABEL
from tests.pages import ROOT, page, rows

# Labels decide which other labels are read: nodes of every vendor and cloud, and of none.
A100 = "NVIDIA-A100-SXM4-80GB"
NODES: tuple[dict[str, str], ...] = (
    {},
    {"nvidia.com/gpu.product": A100},
    {"nvidia.com/gpu.product": A100, "nvidia.com/mig.strategy": "single"},
    {"nvidia.com/cuda.driver-version.major": "570", "nvidia.com/cuda.runtime-version.major": "12"}
    | {"nvidia.com/cuda.driver-version.minor": "86", "nvidia.com/gpu.product": A100},
    {"nvidia.com/cuda.driver.major": "570", "nvidia.com/cuda.driver.minor": "86"}
    | {"nvidia.com/cuda.runtime.major": "12", "nvidia.com/gpu.product": A100},
    {"nvidia.com/gpu.present": "true"},
    {"cloud.google.com/gke-accelerator": "nvidia-l4"},
    {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    | {"cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"},
    {"karpenter.k8s.aws/instance-gpu-name": "a100"},
    {"eks.amazonaws.com/instance-gpu-name": "a100"},
    {"karpenter.azure.com/sku-gpu-name": "A100"},
    {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"},
    {"gpu.intel.com/product": "Max_1550", "gpu.intel.com/device.count": "2"},
    {"habana.ai/device.type": "GAUDI2"},
    {"habana.ai/device.count": "8"},
    {"doks.digitalocean.com/gpu-model": "h100"},
    {"node.kubernetes.io/instance-type": "p4d.24xlarge"},
)
READERS: tuple[Callable[[Mapping[str, str]], object], ...] = (
    lambda labels: estimate_from_labels(labels, {}),
    lambda labels: estimate_from_labels(labels, {"nvidia.com/gpu": 8}),
    caps_from_labels,
    is_spot,
    change_in_progress,
    one_replica,
    node_pool,
    handed_out_by,
)


class Asked(dict[str, str]):
    """Labels that record the reads."""

    def __init__(self, labels: Mapping[str, str], names: set[str]) -> None:
        super().__init__(labels)
        self._names = names

    def get(self, name: str, default: str = "") -> str:  # type: ignore[override]
        self._names.add(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self._names.add(str(name))
        return super().__contains__(name)


@pytest.fixture(scope="module")
def asked() -> set[str]:
    names: set[str] = set()
    for labels in NODES:
        for read in READERS:
            read(Asked(labels, names))
    return names


def told() -> Iterator[str]:
    for row in rows(page("labels")):
        first, *others = re.findall(r"`([^`]+)`", row[0])
        yield first
        for other in others:
            # ".minor" goes on where ".full" or ".major" stands.
            yield first.rpartition(".")[0] + other if other.startswith(".") else other


def test_the_reference_has_every_label_that_is_read_and_no_other(asked: set[str]) -> None:
    ours = {SHARE_NODE_LABEL, VALUE_LABEL, "gpu.scheduler-ext.io/agent"}
    by_pattern = {"nvidia.com/mig-PROFILE.count", "nvidia.com/mig-PROFILE.replicas"}
    assert set(told()) - ours - by_pattern == asked


def test_the_label_that_keeps_agents_away_is_the_daemonsets() -> None:
    assert "key: gpu.scheduler-ext.io/agent," in (ROOT / "manifests/agent/daemonset.yaml").read_text()
