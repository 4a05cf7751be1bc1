"""How GPUs are offered: by the Node's labels, otherwise by the kubelet's offer."""

from __future__ import annotations

import pytest

from scheduler_ext.agent.device_plugin import Allocatable, mig_strategy, sharing
from scheduler_ext.wire.gpunode import SharingStatus

STRATEGY = "nvidia.com/mig.strategy"
REPLICAS, SHARED_BY = "nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy"
WHOLE = {"nvidia.com/gpu": ("GPU-a", "GPU-b")}
MIXED = {"nvidia.com/gpu": ("GPU-b",), "nvidia.com/mig-1g.10gb": ("MIG-a",)}
SINGLE = {"nvidia.com/gpu": ("MIG-a", "MIG-b")}
SHARED = {"nvidia.com/gpu.shared": ("GPU-a::0", "GPU-a::1", "GPU-a::2", "GPU-b::0")}


@pytest.mark.parametrize(
    ("labels", "allocatable", "strategy"),
    [
        pytest.param({STRATEGY: "single"}, None, "single", id="a label"),
        pytest.param({STRATEGY: "Mixed"}, WHOLE, "mixed", id="a label, whatever is offered"),
        pytest.param({}, None, None, id="no source"),
        pytest.param({}, {"nvidia.com/pgpu": ("1",)}, None, id="only GPUs outside containers"),
        pytest.param({}, WHOLE, "none", id="whole GPUs are offered"),
        pytest.param({}, MIXED, "mixed", id="instances are offered by their profiles"),
        pytest.param({}, SINGLE, "single", id="instances are offered as GPUs"),
        pytest.param({STRATEGY: "none"}, None, "none", id="a label that says none"),
        pytest.param({STRATEGY: "none"}, MIXED, "mixed", id="a label that is out of date"),
    ],
)
def test_the_mig_strategy(
    labels: dict[str, str], allocatable: Allocatable | None, strategy: str | None
) -> None:
    assert mig_strategy(labels, allocatable) == strategy


@pytest.mark.parametrize(
    ("labels", "allocatable", "shared"),
    [
        pytest.param(
            {SHARED_BY: "none", REPLICAS: "1"}, WHOLE, None, id="labels say that GPUs are not shared"
        ),
        pytest.param({SHARED_BY: "mps", REPLICAS: "4"}, None, ("mps", 4), id="labels"),
        pytest.param({REPLICAS: "4"}, None, ("time-slicing", 4), id="labels of before there was MPS"),
        pytest.param({}, SHARED, ("time-slicing", 3), id="replicas are offered"),
        pytest.param(
            {SHARED_BY: "mps", REPLICAS: "2"}, SHARED, ("mps", 3), id="labels say by what, kubelet how many"
        ),
        pytest.param({SHARED_BY: "mps", REPLICAS: "50000"}, None, ("mps", 1000), id="no more than is taken"),
        pytest.param(
            {
                "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
                "cloud.google.com/gke-max-shared-clients-per-gpu": "2",
            },
            {"nvidia.com/gpu": ("nvidia0/vgpu0", "nvidia0/vgpu1")},
            ("time-slicing", 2),
            id="GKE",
        ),
    ],
)
def test_sharing(
    labels: dict[str, str], allocatable: Allocatable | None, shared: tuple[str, int] | None
) -> None:
    found = sharing(labels, allocatable)
    assert found == (SharingStatus(*shared) if shared else None)  # type: ignore[arg-type]
