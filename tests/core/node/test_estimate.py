"""The estimate of a node's GPUs from GFD's labels alone; no labels break it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.node.estimate import estimate_from_labels
from scheduler_ext.core.node.node_labels import change_in_progress, is_spot

GFD = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.sharing-strategy": "none",
    "nvidia.com/gpu.memory": "81920",
    "nvidia.com/gpu.compute.major": "8",
    "nvidia.com/gpu.compute.minor": "0",
    "nvidia.com/cuda.driver-version.full": "570.124.06",
    "nvidia.com/cuda.runtime-version.full": "12.8",
}
SINGLE = GFD | {
    "nvidia.com/mig.strategy": "single",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
    "nvidia.com/gpu.count": "56",
    "nvidia.com/gpu.memory": "9728",
}
INVALID = SINGLE | {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-INVALID",
    "nvidia.com/gpu.count": "0",
    "nvidia.com/gpu.replicas": "0",
    "nvidia.com/gpu.sharing-strategy": "",
    "nvidia.com/gpu.memory": "0",
}
MIXED = GFD | {"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.replicas": "0"}
GKE = {"cloud.google.com/gke-accelerator": "nvidia-tesla-a100", "cloud.google.com/gke-accelerator-count": "2"}
KARPENTER = {
    "karpenter.k8s.aws/instance-gpu-name": "a100",
    "karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia",
    "karpenter.k8s.aws/instance-gpu-count": "8",
    "karpenter.k8s.aws/instance-gpu-memory": "81920",
}
G6F = {
    "karpenter.k8s.aws/instance-gpu-name": "l4",
    "karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia",
    "karpenter.k8s.aws/instance-gpu-count": "0",
    "karpenter.k8s.aws/instance-gpu-memory": "2861",
}
AMD = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"}
INTEL = {"gpu.intel.com/product": "Max_1100", "gpu.intel.com/device.count": "4"}


def gpus_of(labels: dict[str, str], capacity: dict[str, int]) -> str:
    """The estimate in words: "8 x A100-80GB, 81920 MiB each"."""
    estimate = estimate_from_labels(labels, capacity)
    assert estimate is not None
    assert estimate.vendor == estimate.model.vendor
    memory = "memory unknown" if estimate.memory_mib is None else f"{estimate.memory_mib} MiB each"
    return f"{estimate.count} x {estimate.model.name}, {memory}"


@pytest.mark.parametrize(
    ("labels", "capacity", "gpus"),
    [
        pytest.param(GFD, {}, "8 x A100-80GB, 81920 MiB each", id="GFD: eight whole GPUs"),
        pytest.param(
            GFD | {"nvidia.com/gpu.count": "many"},
            {"nvidia.com/gpu": 7},
            "7 x A100-80GB, 81920 MiB each",
            id="GFD: an unreadable count leaves it to the capacity",
        ),
        pytest.param(
            GFD | {"nvidia.com/gpu.count": "9" * 5000},
            {},
            "0 x A100-80GB, 81920 MiB each",
            id="GFD: a count of 5000 digits is unreadable",
        ),
        pytest.param(
            SINGLE,
            {},
            "56 x A100-80GB-MIG-1G.10GB, 9728 MiB each",
            id="GFD single: count and memory of slices",
        ),
        pytest.param(
            SINGLE | {"nvidia.com/gpu.count": "?"} | KARPENTER,
            {"nvidia.com/gpu": 55},
            "55 x A100-80GB-MIG-1G.10GB, 9728 MiB each",
            id="GFD single: a cloud's count of GPUs is not taken for slices",
        ),
        pytest.param(
            SINGLE | {"nvidia.com/gpu.memory": "?"} | KARPENTER,
            {},
            "56 x A100-80GB-MIG-1G.10GB, 8960 MiB each",
            id="GFD single: a cloud's memory of a GPU is not taken for a slice's",
        ),
        pytest.param(
            INVALID,
            {"nvidia.com/gpu": 4},
            "0 x A100-80GB-MIG-INVALID, memory unknown",
            id="GFD: an invalid mix",
        ),
        pytest.param(
            MIXED,
            {"nvidia.com/gpu": 3, "nvidia.com/mig-1g.10gb": 35},
            "3 x A100-80GB, 81920 MiB each",
            id="GFD mixed: the capacity says how many are whole",
        ),
        pytest.param(
            MIXED | {"nvidia.com/mig-1g.10gb.count": "7"},
            {},
            "0 x A100-80GB, 81920 MiB each",
            id="GFD mixed: slices and no capacity, so none is surely whole",
        ),
        pytest.param(
            {"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "4"},
            {"nvidia.com/gpu": 8},
            "2 x T4, 15360 MiB each",
            id="GFD: the capacity of shared GPUs is divided by the replicas",
        ),
        pytest.param(
            {
                "nvidia.com/gpu.product": "Tesla-T4",
                "nvidia.com/gpu.replicas": "4",
                "nvidia.com/gpu.sharing-strategy": "time-slicing",
            },
            {"nvidia.com/gpu.shared": 8},
            "2 x T4, 15360 MiB each",
            id="GFD: shared GPUs may have a resource of their own",
        ),
        pytest.param(
            {"nvidia.com/gpu.present": "true"},
            {"nvidia.com/gpu": 4},
            "4 x UNKNOWN, memory unknown",
            id="the operator says only that there are GPUs",
        ),
        pytest.param(
            {"nvidia.com/gpu.product": "NVIDIA-H100-NVL", "nvidia.com/gpu.count": "2"}
            | {"gpu.intel.com/memory.max": str(64 * 2**30)},
            {},
            "2 x H100-94GB, 95830 MiB each",
            id="the memory of an integrated GPU beside is not NVIDIA's",
        ),
    ],
)
def test_model_count_and_memory(labels: dict[str, str], capacity: dict[str, int], gpus: str) -> None:
    assert gpus_of(labels, capacity) == gpus


KEYS = sorted(
    {key for labels in (GFD, MIXED, GKE, KARPENTER, AMD, INTEL) for key in labels}
    | {"cloud.google.com/gke-gpu-partition-size", "cloud.google.com/gke-gpu-sharing-strategy"}
    | {
        "cloud.google.com/gke-max-shared-clients-per-gpu",
        "gpu.intel.com/memory.max",
        "nvidia.com/mig-1g.5gb.count",
    }
    | {
        "amd.com/compute-memory-partition",
        "amd.com/gpu.vram.64G",
        "habana.ai/product.name",
        "node.kubernetes.io/instance-type",
    }
)
VALUES: list[str] = sorted(
    {
        value
        for labels in (GFD, SINGLE, INVALID, MIXED, GKE, KARPENTER, G6F, AMD, INTEL)
        for value in labels.values()
    }
    | {
        "",
        "0",
        "-1",
        "1e3",
        "٣",
        "²",
        "9" * 5000,
        "time-sharing",
        "mps",
        "1g.5gb",
        "cpx_nps4",
        "0G",
        "9000T",
        "999999999",
        "g6f.large",
        ".",
    }
)
label_sets = st.dictionaries(
    st.sampled_from(KEYS), st.sampled_from(VALUES) | st.text(max_size=63), max_size=12
)
RESOURCES = ("cpu", "nvidia.com/gpu", "nvidia.com/gpu.shared", "amd.com/gpu", "gpu.intel.com/i915")
capacities = st.dictionaries(st.sampled_from(RESOURCES), st.integers(-5, 10**12))


@given(label_sets, capacities)
def test_no_labels_break_the_estimate(labels: dict[str, str], capacity: dict[str, int]) -> None:
    is_spot(labels)
    change_in_progress(labels)
    estimate = estimate_from_labels(labels, capacity)
    if estimate is None:
        return
    assert 0 <= estimate.count <= 256
    assert estimate.replicas >= 1
    assert estimate.memory_mib is None or 0 <= estimate.memory_mib <= 2**24
    assert estimate.vendor in ("nvidia", "amd", "intel", "habana")
    assert estimate.sharing_strategy in ("none", "time-slicing", "mps")
    assert estimate.mig_strategy in ("none", "single", "mixed")
