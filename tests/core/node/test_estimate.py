"""The estimate of a node's GPUs from its labels alone; no labels break it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.node.estimate import Estimate, estimate_from_labels
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
G6F = KARPENTER | {
    "karpenter.k8s.aws/instance-gpu-name": "l4",
    "karpenter.k8s.aws/instance-gpu-count": "0",
    "karpenter.k8s.aws/instance-gpu-memory": "2861",
}
AMD = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"}
INTEL = {"gpu.intel.com/product": "Max_1100", "gpu.intel.com/device.count": "4"}


def machine(name: str) -> dict[str, str]:
    return {"node.kubernetes.io/instance-type": name}


def estimated(labels: dict[str, str], capacity: dict[str, int] | None = None) -> Estimate:
    estimate = estimate_from_labels(labels, capacity or {})
    assert estimate is not None
    return estimate


SLICES = {
    "nvidia.com/gpu.product": "Tesla-T4",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
}
# With an integrated GPU beside the others.
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-NVL", "gpu.intel.com/memory.max": str(64 * 2**30)}
# GFD is installed there, too.
GKE_PARTITIONS = GFD | GKE | {"cloud.google.com/gke-gpu-partition-size": "1g.5gb"}
GKE_QUARTER = machine("g4-standard-12") | {"cloud.google.com/gke-accelerator": "nvidia-rtx-pro-6000"}
EKS = {"eks.amazonaws.com/instance-gpu-name": "l40s", "eks.amazonaws.com/instance-gpu-count": "4"}
AZURE = {"karpenter.azure.com/sku-gpu-name": "A100", "karpenter.azure.com/sku-gpu-count": "4"}
AKS = machine("Standard_NC24ads_A100_v4") | {"kubernetes.azure.com/accelerator": "nvidia"}
AMD_BETA = {"beta.amd.com/gpu.product-name": "AMD_Instinct_MI210", "beta.amd.com/gpu.vram": "64G"}
AMD_PARTITIONS = AMD | {"amd.com/compute-memory-partition": "cpx_nps4"}
AMD_SEVERAL = {
    "amd.com/gpu.product-name.AMD_Instinct_MI210": "2",
    "amd.com/gpu.product-name.AMD_Instinct_MI300X_OAM": "6",
    "amd.com/gpu.vram.64G": "2",
    "amd.com/gpu.vram.192G": "6",
}
INTEL_40G = INTEL | {"gpu.intel.com/memory.max": str(4 * 40 * 2**30)}
# The product is that of the machine.
GAUDI = {"habana.ai/product.name": "HLS2_B81.04B01.0013", "habana.ai/device.type": "GAUDI2"}
UNREADABLE = {"nvidia.com/gpu.count": "many", "nvidia.com/gpu.memory": "?"}


def whole(count: int) -> dict[str, int]:
    return {"nvidia.com/gpu": count}


@pytest.mark.parametrize(
    ("labels", "capacity", "gpus"),
    [
        pytest.param(GFD, {}, "8 x A100-80GB, 81920 MiB", id="GFD: eight whole GPUs"),
        pytest.param(GFD | UNREADABLE, whole(7), "7 x A100-80GB, 81920 MiB", id="unreadable: the capacity"),
        pytest.param(SINGLE, {}, "56 x A100-80GB-MIG-1G.10GB, 9728 MiB", id="MIG single: slices"),
        pytest.param(
            SINGLE | UNREADABLE | KARPENTER,
            whole(55),
            "55 x A100-80GB-MIG-1G.10GB, 9728 MiB",
            id="a cloud's count and memory of GPUs are not taken for those of slices",
        ),
        pytest.param(
            INVALID, whole(4), "0 x A100-80GB, 81920 MiB", id="an invalid mix, of GPUs of this model"
        ),
        pytest.param(MIXED, whole(3), "3 x A100-80GB, 81920 MiB", id="MIG mixed: by the capacity"),
        pytest.param(
            MIXED | {"nvidia.com/mig-1g.10gb.count": "7"},
            {},
            "0 x A100-80GB, 81920 MiB",
            id="slices and no capacity, so none is surely whole",
        ),
        pytest.param(
            SLICES,
            {"nvidia.com/gpu.shared": 8},
            "2 x T4, 15360 MiB",
            id="the capacity is divided by the replicas, and may be of another name",
        ),
        pytest.param(
            {"nvidia.com/gpu.present": "true"},
            whole(4),
            "4 x UNKNOWN, unknown",
            id="the operator says only that there are GPUs",
        ),
        pytest.param(H100, whole(2), "2 x H100-94GB, 95830 MiB", id="Intel's memory is not NVIDIA's"),
        pytest.param(GKE, {}, "2 x A100-40GB, 40960 MiB", id="GKE: whole GPUs"),
        pytest.param(
            GKE_PARTITIONS,
            whole(14),
            "14 x A100-80GB-MIG-1G.5GB, 4480 MiB",
            id="GKE: the capacity counts partitions",
        ),
        pytest.param(
            machine("g4-standard-48")
            | {
                "cloud.google.com/gke-accelerator": "nvidia-rtx-pro-6000",
                "cloud.google.com/gke-gpu-partition-size": "1g.24gb+gfx",
            },
            whole(4),
            "4 x RTX-PRO-6000-MIG-1G.24GB.GFX, 24192 MiB",
            id="GKE: with the memory of the profile",
        ),
        pytest.param(GKE_QUARTER, whole(1), "1 x RTX-PRO-6000, 24471 MiB", id="GKE: a quarter of a GPU"),
        pytest.param(G6F, whole(1), "1 x L4, 2861 MiB", id="Karpenter: a fraction of an L4 counts as one"),
        pytest.param(EKS, {}, "4 x L40S, 46068 MiB", id="EKS Auto Mode"),
        pytest.param(machine("p5.48xlarge"), {}, "0 x H100-80GB, 81559 MiB", id="a type counts nothing"),
        pytest.param(AZURE, {}, "4 x A100, unknown", id="Azure: an A100 of unknown size"),
        pytest.param(AKS, whole(1), "1 x A100-80GB, 81920 MiB", id="AKS: by VM size, whatever its case"),
        pytest.param(AMD_BETA, {"amd.com/gpu": 2}, "2 x MI210, 65536 MiB", id="AMD: beta names"),
        pytest.param(
            AMD_PARTITIONS,
            {"amd.com/gpu": 64},
            "64 x MI300X-CPX-NPS4, 24576 MiB",
            id="AMD: a partition is not the GPU",
        ),
        pytest.param(AMD_SEVERAL, {"amd.com/gpu": 8}, "8 x UNKNOWN, 65536 MiB", id="AMD: the least is sure"),
        pytest.param(INTEL_40G, {}, "4 x MAX-1100, 40960 MiB", id="Intel: memory.max is of the whole node"),
        pytest.param(
            GAUDI | {"habana.ai/device.count": "8"}, {}, "8 x GAUDI2, 98304 MiB", id="Gaudi Feature Discovery"
        ),
        pytest.param(
            {"amd.com/gpu.product-name": "AMD_Radeon_Graphics", "amd.com/gpu.device-id": "75b8"},
            {"amd.com/gpu": 2},
            "2 x MI350P, unknown",
            id="AMD: libdrm does not know the product",
        ),
        pytest.param(
            AMD | {"amd.com/gpu.compute-memory-partition": "cpx_nps4"},
            {"amd.com/gpu": 64},
            "64 x MI300X-CPX-NPS4, 24576 MiB",
            id="AMD: partitions by the labeller's name",
        ),
        pytest.param(
            {"amd.com/gpu.device-id": "74b5", "amd.com/gpu.vram": "192G"},
            {"amd.com/gpu": 1},
            "1 x MI300X, 196608 MiB",
            id="AMD: a virtual function has an id and no name",
        ),
        pytest.param(
            {"gpu.nvidia.com/class": "A100_PCIE_40GB", "gpu.nvidia.com/count": "6"},
            {},
            "6 x A100-40GB, 40960 MiB",
            id="CoreWeave",
        ),
        pytest.param(
            {"gpu.nvidia.com/model": "H100_NVLINK", "gpu.nvidia.com/vram": "81", "gpu.nvidia.com/count": "8"},
            {},
            "8 x H100-80GB, 81559 MiB",
            id="CoreWeave: its memory, in thousands, decides between the sizes of a model",
        ),
        pytest.param(
            {"gpu.nvidia.com/class": "Z1", "gpu.nvidia.com/vram": "8", "gpu.nvidia.com/count": "2"},
            {},
            "2 x Z1, 8000 MiB",
            id="CoreWeave: and is that of another model at least",
        ),
        pytest.param({"nebius.com/gpu-name": "H200"}, whole(8), "8 x H200-141GB, 143771 MiB", id="Nebius"),
        pytest.param(
            {"nebius.com/gpu-name": "RTX6000"},
            whole(1),
            "1 x RTX-PRO-6000, 97887 MiB",
            id="Nebius: its own name of a product",
        ),
        pytest.param(
            {"ibm-cloud.kubernetes.io/gpu-enabled": "true"}, whole(2), "2 x UNKNOWN, unknown", id="IBM Cloud"
        ),
        pytest.param(machine("gx3.48x240.2l40s"), whole(2), "2 x L40S, 46068 MiB", id="IBM Cloud: a flavor"),
        pytest.param(
            {"cloud.google.com/gke-accelerator": "nvidia-l4-vws"},
            whole(1),
            "1 x L4, 23034 MiB",
            id="GKE: with a licence for virtual workstations",
        ),
        pytest.param(
            {"nvidia.com/gpu.product": "GRID-A100-4C", "nvidia.com/gpu.memory": "4096"},
            whole(1),
            "1 x A100-40GB, 4096 MiB",
            id="a vGPU has its own memory",
        ),
        pytest.param(
            {"nvidia.com/gpu.product": "GRID-A100-4C"},
            whole(1),
            "1 x A100-40GB, unknown",
            id="and never that of its GPU",
        ),
        pytest.param(
            {"doks.digitalocean.com/gpu-model": "mi300x", "doks.digitalocean.com/gpu-brand": "amd"},
            {"amd.com/gpu": 8},
            "8 x MI300X, 196608 MiB",
            id="DigitalOcean",
        ),
        pytest.param(
            machine("gpu-h100x8-640gb") | {"doks.digitalocean.com/gpu-model": "h100"},
            whole(8),
            "8 x H100-80GB, 81559 MiB",
            id="DigitalOcean: a family, in the size of the machine",
        ),
        pytest.param(
            {
                "aliyun.accelerator/nvidia_name": "NVIDIA-Z1",
                "aliyun.accelerator/nvidia_mem": "7611MiB",
                "aliyun.accelerator/nvidia_count": "2",
            },
            {},
            "2 x Z1, 7611 MiB",
            id="Alibaba Cloud",
        ),
        pytest.param(
            {"nvidia.com/gpu.product": "NVIDIA-DGX-Display", "nvidia.com/gpu.count": "5"}
            | {"nvidia.com/gpu.memory": "4096", "gpu.scheduler-ext.io/model": "A100-80GB"},
            whole(4),
            "4 x A100-80GB, 81920 MiB",
            id="a GPU for displays is none",
        ),
        pytest.param(
            {"nvidia.com/gpu.product": "NVIDIA-GB10", "gpu.scheduler-ext.io/gpu-memory-mib": "122880"},
            whole(1),
            "1 x GB10, 122880 MiB",
            id="memory that an administrator states",
        ),
    ],
)
def test_model_count_and_memory(labels: dict[str, str], capacity: dict[str, int], gpus: str) -> None:
    estimate = estimated(labels, capacity)
    assert estimate.vendor == estimate.model.vendor
    memory = "unknown" if estimate.memory_mib is None else f"{estimate.memory_mib} MiB"
    assert f"{estimate.count} x {estimate.model.name}, {memory}" == gpus


def test_labels_say_that_a_mig_layout_is_invalid() -> None:
    found = estimated(INVALID, whole(4))
    assert (found.mig_invalid, found.mig_strategy) == (True, "single")
    assert not estimated(SINGLE).mig_invalid


KNOWN = (GFD, SINGLE, INVALID, MIXED, GKE, KARPENTER, G6F, AMD, INTEL)
KEYS = {
    *(key for labels in KNOWN for key in labels),
    "amd.com/compute-memory-partition",
    "amd.com/gpu.vram.64G",
    "cloud.google.com/gke-gpu-partition-size",
    "cloud.google.com/gke-gpu-sharing-strategy",
    "cloud.google.com/gke-max-shared-clients-per-gpu",
    "gpu.intel.com/memory.max",
    "habana.ai/device.type",
    "node.kubernetes.io/instance-type",
    "nvidia.com/mig-1g.5gb.count",
}
ODD_VALUES = "0 -1 1e3 ٣ ² time-sharing mps 1g.5gb cpx_nps4 0G 9000T 999999999 g6f.large ."
VALUES = {
    *(value for labels in KNOWN for value in labels.values()),
    *ODD_VALUES.split(),
    "",
    "9" * 5000,
}
label_sets = st.dictionaries(
    st.sampled_from(sorted(KEYS)), st.sampled_from(sorted(VALUES)) | st.text(max_size=63), max_size=12
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
