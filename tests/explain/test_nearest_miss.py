"""explain: the nearest miss on a node that does not fit, in numbers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.explain.explaining import explained, mig, only, wish
from tests.kube_objects import SHARE, Json, gpu, gpu_node, node, pod

WHOLE = "nvidia.com/gpu"
ONE_G = "nvidia.com/mig-1g.10gb"


@pytest.mark.parametrize(
    ("asking", "objects", "reason", "miss"),
    [
        pytest.param(
            pod("p", {WHOLE: "2"}),
            [gpu_node("n", [gpu(0), gpu(1)]), node("n", {WHOLE: "1"})],
            "Insufficient nvidia.com/gpu per device",
            ("gpu-count", None, 2, 1, WHOLE),
            id="nor those above the allocatable",
        ),
        pytest.param(
            wish({WHOLE: "1"}, min_memory="64Gi"),
            [gpu_node("n", [gpu(0, model="GB10", total=0)])],
            "node(s) had GPUs of unknown memory",
            ("known-memory", "GPU-0", 65536, None, "MiB"),
            id="memory that is unknown is not 0",
        ),
        pytest.param(
            wish({WHOLE: "1"}, min_free_memory="64Gi", min_memory="200Gi"),
            [
                gpu_node("n", [gpu(0, model="GB10", total=0)]),
                node("n", {WHOLE: "1"}, labels={"gpu.scheduler-ext.io/gpu-memory-mib": "122880"}),
            ],
            "node(s) had GPUs of unknown memory",
            ("known-memory", "GPU-0", 65536, None, "MiB"),
            id="nor is free what a label states as total",
        ),
        pytest.param(
            pod("p", {SHARE: "50000"}),
            [gpu_node("n", [gpu(0, model="GB10", total=0)])],
            "node(s) had GPUs of unknown memory",
            ("known-memory", "GPU-0", 50000, None, "MiB"),
            id="a share of an unknown memory",
        ),
        pytest.param(
            pod("p", {"amd.com/gpu": "2"}),
            [node("n", {"amd.com/gpu": "1"}, labels={"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"})],
            "Insufficient amd.com/gpu per device",
            ("gpu-count", None, 2, 1, "amd.com/gpu"),
            id="another vendor's resource by its own name",
        ),
        pytest.param(
            pod("p", {"habana.ai/gaudi": "1"}),
            [node("n", {"cpu": "8"})],
            "Insufficient habana.ai/gaudi per device",
            ("gpu-count", None, 1, 0, "habana.ai/gaudi"),
            id="also on a node without any GPU",
        ),
        pytest.param(
            pod("p", {SHARE: "50000"}),
            [
                gpu_node(
                    "n",
                    [
                        gpu(0, memory={"totalMiB": 81920, "usedMiB": 30000}),
                        gpu(1, memory={"totalMiB": 81920, "usedMiB": 25000}),
                    ],
                )
            ],
            "Insufficient GPU memory on one device",
            # 81920 - 25000 - 8192 of headroom
            ("free-memory", "GPU-1", 50000, 48728, "MiB"),
            id="the GPU with the most free memory",
        ),
        pytest.param(
            pod("p", {SHARE: "1000"}, annotations={"gpu.scheduler-ext.io/model": "A100"}),
            [
                gpu_node(
                    "n",
                    [gpu(0, memory={"totalMiB": 81920, "usedMiB": 80000}), gpu(1, model="T4", total=15360)],
                )
            ],
            "Insufficient GPU memory on one device",
            ("free-memory", "GPU-0", 1000, 0, "MiB"),
            id="only the GPUs of the wished model count",
        ),
        pytest.param(
            wish({WHOLE: "1"}, min_free_memory="70Gi"),
            [gpu_node("n", [gpu(0), gpu(1, memory={"totalMiB": 81920, "usedMiB": 20000})])],
            "Insufficient GPU memory on one device",
            ("free-memory", "GPU-1", 71680, 61920, "MiB"),
            id="the plugin might pick the one with less free memory",
        ),
        pytest.param(
            wish({WHOLE: "1"}, min_compute_capability="9.0"),
            [gpu_node("n", [gpu(0)])],
            "node(s) had too low a compute capability",
            ("compute-capability", "GPU-0", "9.0", "8.0", "compute capability"),
            id="an older GPU",
        ),
        pytest.param(
            wish({WHOLE: "1"}, sharing="exclusive"),
            [gpu_node("n", [gpu(0)], sharing={"strategy": "time-slicing", "replicas": 4})],
            "node(s) had GPUs in another sharing mode",
            ("sharing", None, "exclusive", "shared", "sharing"),
            id="shared GPUs",
        ),
        pytest.param(
            pod("p", {ONE_G: "2"}),
            [
                gpu_node(
                    "n", [gpu(0, mig=mig(("1g.10gb", 0, 1), ("1g.10gb", 1, 1), ("3g.40gb", 4, 4), held=(0,)))]
                )
            ],
            "node(s) had no free MIG placement",
            ("mig-placement", "GPU-0", 2, 1, ONE_G),
            id="too few instances, but one more could be created on the GPU named",
        ),
        pytest.param(
            pod("p", {ONE_G: "1"}),
            [gpu_node("n", [gpu(0)])],
            "node(s) had no free MIG placement",
            ("mig-placement", None, 1, 0, ONE_G),
            id="no instances at all",
        ),
    ],
)
def test_the_nearest_miss_in_numbers(
    asking: Json, objects: list[Json], reason: str, miss: tuple[Any, ...]
) -> None:
    entry = only(explained(asking, *objects))
    assert entry["reason"] == reason
    assert tuple(entry["nearestMiss"].values()) == miss
    assert list(entry["nearestMiss"]) == ["criterion", "device", "needed", "have", "unit"]
