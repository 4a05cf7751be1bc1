"""The estimate of a node's GPUs from labels of clouds and of vendors other than NVIDIA."""

from __future__ import annotations

import pytest

from tests.core.node.test_estimate import AMD, G6F, GKE, INTEL, KARPENTER, gpus_of
from tests.core.node.test_node_labels import machine


@pytest.mark.parametrize(
    ("labels", "capacity", "gpus"),
    [
        pytest.param(GKE, {}, "2 x A100-40GB, 40960 MiB each", id="GKE: whole GPUs"),
        pytest.param(
            GKE | {"cloud.google.com/gke-gpu-partition-size": "1g.5gb"},
            {"nvidia.com/gpu": 14},
            "14 x A100-40GB-MIG-1G.5GB, 4480 MiB each",
            id="GKE: the capacity counts partitions",
        ),
        pytest.param(
            GKE
            | {
                "cloud.google.com/gke-gpu-partition-size": "1g.5gb",
                "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
                "nvidia.com/gpu.count": "2",
                "nvidia.com/gpu.memory": "40960",
            },
            {"nvidia.com/gpu": 14},
            "14 x A100-40GB-MIG-1G.5GB, 4480 MiB each",
            id="GKE: GFD installed beside counts GPUs, not partitions",
        ),
        pytest.param(
            {
                "cloud.google.com/gke-accelerator": "nvidia-rtx-pro-6000",
                "cloud.google.com/gke-accelerator-count": "1",
                **machine("g4-standard-12"),
            },
            {"nvidia.com/gpu": 1},
            "1 x RTX-PRO-6000, 24471 MiB each",
            id="GKE: a quarter of a GPU counts as one",
        ),
        pytest.param(
            KARPENTER, {}, "8 x A100-80GB, 81920 MiB each", id="Karpenter: memory identifies the A100"
        ),
        pytest.param(
            G6F,
            {"nvidia.com/gpu": 1},
            "1 x L4, 2861 MiB each",
            id="Karpenter: a fraction of an L4 counts as one",
        ),
        pytest.param(
            {"eks.amazonaws.com/instance-gpu-name": "l40s", "eks.amazonaws.com/instance-gpu-count": "4"},
            {},
            "4 x L40S, 46068 MiB each",
            id="EKS Auto Mode",
        ),
        pytest.param(
            {"beta.amd.com/gpu.product-name": "AMD_Instinct_MI210", "beta.amd.com/gpu.vram": "64G"},
            {"amd.com/gpu": 2},
            "2 x MI210, 65536 MiB each",
            id="AMD: the labeller's beta names",
        ),
        pytest.param(
            {"habana.ai/product.name": "Intel-Gaudi-2-96GB"},
            {"habana.ai/gaudi": 8},
            "8 x GAUDI2, 98304 MiB each",
            id="Gaudi",
        ),
        pytest.param(
            machine("p4de.24xlarge"),
            {"nvidia.com/gpu": 8},
            "8 x A100-80GB, 81920 MiB each",
            id="EC2 by instance type",
        ),
        pytest.param(
            machine("p5.48xlarge"),
            {},
            "0 x H100-80GB, 81559 MiB each",
            id="an instance type alone counts nothing",
        ),
        pytest.param(
            {"karpenter.azure.com/sku-gpu-name": "A100", "karpenter.azure.com/sku-gpu-count": "4"},
            {},
            "4 x A100, memory unknown",
            id="Azure: an A100 of unknown size",
        ),
        pytest.param(
            {"kubernetes.azure.com/accelerator": "nvidia", **machine("Standard_NC24ads_A100_v4")},
            {"nvidia.com/gpu": 1},
            "1 x A100-80GB, 81920 MiB each",
            id="AKS: the model by VM size, whatever its case",
        ),
        pytest.param(AMD, {"amd.com/gpu": 8}, "8 x MI300X, 196608 MiB each", id="AMD"),
        pytest.param(
            AMD | {"amd.com/compute-memory-partition": "cpx_nps4"},
            {"amd.com/gpu": 64},
            "64 x MI300X-CPX-NPS4, 24576 MiB each",
            id="AMD: a partition is not the GPU",
        ),
        pytest.param(
            {
                "amd.com/gpu.product-name.AMD_Instinct_MI210": "2",
                "amd.com/gpu.product-name.AMD_Instinct_MI300X_OAM": "6",
                "amd.com/gpu.vram.64G": "2",
                "amd.com/gpu.vram.192G": "6",
            },
            {"amd.com/gpu": 8},
            "8 x UNKNOWN, 65536 MiB each",
            id="AMD: of several products only the least is sure",
        ),
        pytest.param(INTEL, {}, "4 x MAX-1100, 49152 MiB each", id="Intel: memory from the table"),
        pytest.param(
            INTEL | {"gpu.intel.com/memory.max": str(4 * 48 * 2**30)},
            {},
            "4 x MAX-1100, 49152 MiB each",
            id="Intel: memory.max is bytes of the whole node",
        ),
    ],
)
def test_model_count_and_memory(labels: dict[str, str], capacity: dict[str, int], gpus: str) -> None:
    assert gpus_of(labels, capacity) == gpus
