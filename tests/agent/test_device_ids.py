"""The meaning of device plugins' ids, form by form."""

from __future__ import annotations

import pytest

from scheduler_ext.agent.device_plugin import DeviceIds, DeviceReference, sharing_replicas
from scheduler_ext.agent.node_reading import DeviceReading, InstanceReading, NodeReading

GPU = "nvidia.com/gpu"


def node() -> NodeReading:
    """Four GPUs whose minor numbers differ from their indices, one without a minor number; two are
    partitioned.
    """
    return NodeReading(
        (
            DeviceReading(
                "GPU-a",
                0,
                81920,
                minor=1,
                instances=(
                    InstanceReading("MIG-a1", "1g.10gb", gpu_instance_id=7),
                    InstanceReading("MIG-a2", "3g.40gb", gpu_instance_id=2),
                    InstanceReading("MIG-a3", "1c.3g.40gb", gpu_instance_id=3),
                    InstanceReading("MIG-a4", "1c.3g.40gb", gpu_instance_id=3),
                ),
            ),
            DeviceReading(
                "GPU-b", 1, 81920, minor=0, instances=(InstanceReading("MIG-GPU-b/1/0", "7g.80gb"),)
            ),
            DeviceReading("GPU-c", 2, 81920),
            DeviceReading("GPU-d", 3, 81920, minor=5),
        )
    )


@pytest.mark.parametrize(
    ("device_id", "place"),
    [
        pytest.param("GPU-a", DeviceReference("GPU-a"), id="a UUID"),
        pytest.param("GPU-a::3", DeviceReference("GPU-a"), id="a replica of a GPU"),
        pytest.param("MIG-a1", DeviceReference("GPU-a", "MIG-a1"), id="an instance's UUID"),
        pytest.param("MIG-a1::0", DeviceReference("GPU-a", "MIG-a1"), id="a replica of an instance"),
        pytest.param(
            "MIG-GPU-b/1/0", DeviceReference("GPU-b", "MIG-GPU-b/1/0"), id="an old driver's instance"
        ),
        pytest.param(
            "MIG-GPU-a/7/0", DeviceReference("GPU-a", "MIG-a1"), id="an old name where NVML has new ones"
        ),
        pytest.param("MIG-GPU-a/3/1", None, id="an old name of one of two in a GPU instance"),
        pytest.param("MIG-GPU-a/7/0x", None, id="an old name with more behind it"),
        pytest.param("nvidia0", DeviceReference("GPU-b"), id="GKE counts as /dev does"),
        pytest.param("nvidia2", DeviceReference("GPU-c"), id="by index where /dev's number is not known"),
        pytest.param("nvidia3", None, id="the index of a GPU whose device file has another number"),
        pytest.param("nvidia1/gi2", DeviceReference("GPU-a", "MIG-a2"), id="GKE's instance"),
        pytest.param("nvidia1/gi9", None, id="GKE's instance that is gone"),
        pytest.param("nvidia1/gi3", None, id="GKE's instance that several share"),
        pytest.param("nvidia0/vgpu1", DeviceReference("GPU-b"), id="GKE's replica"),
        pytest.param("1", DeviceReference("GPU-b"), id="an index"),
        pytest.param("4", None, id="an index beyond"),
        pytest.param("9" * 5000, None, id="a number without end"),
        pytest.param("٣", None, id="a digit of another script"),
        pytest.param("GPU-z", None, id="a GPU that is gone"),
        pytest.param("nvidia0\n", None, id="a line end"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_an_id_means_one_place_or_none(device_id: str, place: DeviceReference | None) -> None:
    assert DeviceIds(node()).place(GPU, device_id) == place


def test_numbers_of_other_plugins_are_no_indices() -> None:
    ids = DeviceIds(node())
    assert ids.place("nvidia.com/GA102GL_A10", "1") is None
    assert ids.place("nvidia.com/gpu.shared", "1::0") == DeviceReference("GPU-b")


@pytest.mark.parametrize(
    ("allocatable", "replicas"),
    [
        pytest.param(None, None, id="not known"),
        pytest.param({GPU: ["GPU-a::0", "GPU-a::1", "GPU-b::0", "GPU-b::1"]}, 2, id="two of each"),
        pytest.param({GPU: ["GPU-a::0", "GPU-a::1", "GPU-b::4"]}, 2, id="the most where some are missing"),
        pytest.param({GPU: ["GPU-a::0", "GPU-a::0"]}, 1, id="the same twice is one"),
        pytest.param({GPU: ["GPU-a"], "nvidia.com/mig-1g.10gb": ["M::0", "M::1", "M::2"]}, 3, id="instances"),
        pytest.param({GPU: ["nvidia0/vgpu0", "nvidia0/vgpu1", "nvidia1/vgpu0"]}, 2, id="GKE's"),
        pytest.param({GPU: [f"GPU-a::{n}" for n in range(1001)]}, 1000, id="more than a report may say"),
    ],
)
def test_replicas_are_counted_by_device(
    allocatable: dict[str, list[str]] | None, replicas: int | None
) -> None:
    assert sharing_replicas(allocatable) == replicas
