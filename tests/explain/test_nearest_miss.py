"""explain: the nearest miss on a node that does not fit, in numbers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.explain.explaining import explained, mig, only, wish
from tests.kube_objects import GFD_H100, SHARE, Json, gpu, gpu_node, holder, node, pod

WHOLE = "nvidia.com/gpu"
ONE_G = "nvidia.com/mig-1g.10gb"
SICK = {"state": "Unhealthy", "reason": "XID 79"}


@pytest.mark.parametrize(
    ("asking", "objects", "reason", "miss"),
    [
        pytest.param(
            pod("p", {WHOLE: "4"}),
            [gpu_node("n", [gpu(0), gpu(1), gpu(2, holders=[holder("x")])])],
            "Insufficient nvidia.com/gpu per device",
            ("gpu-count", None, 4, 2, WHOLE),
            id="held GPUs do not count",
        ),
        pytest.param(
            pod("p", {WHOLE: "2"}),
            [gpu_node("n", [gpu(0), gpu(1)]), node("n", {WHOLE: "1"})],
            "Insufficient nvidia.com/gpu per device",
            ("gpu-count", None, 2, 1, WHOLE),
            id="nor those above the allocatable",
        ),
        pytest.param(
            pod("p", {WHOLE: "2"}),
            [gpu_node("n", [gpu(0), gpu(1, health=SICK)])],
            "node(s) had unhealthy GPUs",
            ("health", "GPU-1", "Healthy", "Unhealthy", "health"),
            id="it would fit with the sick one",
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
            pod("p", containers=[{"name": c, "resources": {"limits": {SHARE: "40000"}}} for c in "abc"]),
            [gpu_node("n", [gpu(0, total=100000), gpu(1, total=20000)])],
            "Insufficient GPU memory on one device",
            # 90000 and 18000 for shares: two fit on the first GPU, which leaves 10000.
            ("free-memory", "GPU-1", 40000, 18000, "MiB"),
            id="the share that finds no GPU any more",
        ),
        pytest.param(
            pod("p", {SHARE: "90000"}),
            [gpu_node("n", [gpu(0), gpu(1, model="T4", total=15360)])],
            "node(s) had GPUs too small",
            ("total-memory", "GPU-0", 90000, 81920, "MiB"),
            id="the largest GPU can never hold it",
        ),
        pytest.param(
            wish({WHOLE: "1"}, min_memory="100Gi"),
            [gpu_node("n", [gpu(0)])],
            "node(s) had GPUs too small",
            ("total-memory", "GPU-0", 102400, 81920, "MiB"),
            id="total memory",
        ),
        pytest.param(
            wish({WHOLE: "1"}, min_free_memory="70Gi"),
            [gpu_node("n", [gpu(0), gpu(1, memory={"totalMiB": 81920, "usedMiB": 20000})])],
            "Insufficient GPU memory on one device",
            ("free-memory", "GPU-1", 71680, 61920, "MiB"),
            id="the plugin might pick the one with less free memory",
        ),
        pytest.param(
            wish({WHOLE: "1"}, model="H100,T4"),
            [gpu_node("n", [gpu(0)])],
            "node(s) didn't match the requested GPU model",
            ("model", "GPU-0", "H100,T4", "A100-80GB", "model"),
            id="another model",
        ),
        pytest.param(
            wish({WHOLE: "1"}, min_compute_capability="9.0"),
            [gpu_node("n", [gpu(0)])],
            "node(s) had too low a compute capability",
            ("compute-capability", "GPU-0", "9.0", "8.0", "compute capability"),
            id="an older GPU",
        ),
        pytest.param(
            wish({WHOLE: "1"}, min_cuda="12.4"),
            [gpu_node("n", [gpu(0)], cudaVersion="11.8")],
            "node(s) had too old a CUDA driver",
            ("cuda", None, "12.4", "11.8", "CUDA version"),
            id="an older driver",
        ),
        pytest.param(
            wish({WHOLE: "1"}, min_cuda="12.4"),
            [gpu_node("n", [gpu(0)])],
            "node(s) had too old a CUDA driver",
            ("cuda", None, "12.4", None, "CUDA version"),
            id="a driver that does not say",
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
        pytest.param(
            pod("p", {SHARE: "100"}),
            [node("n", {WHOLE: "8"}, labels=GFD_H100)],
            "node(s) had no fresh GPU inventory",
            ("fresh-inventory", None, "Fresh report", "labels only", "state"),
            id="labels have no free memory",
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
