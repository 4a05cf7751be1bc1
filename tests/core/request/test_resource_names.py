"""Names of resources that may mean GPUs though they are not configured."""

from __future__ import annotations

import pytest

from scheduler_ext.core.request.resource_names import ResourceNames


@pytest.mark.parametrize(
    ("name", "looks_so", "meant"),
    [
        pytest.param("nvidia.com/gpu", False, "nvidia.com/gpu", id="a configured one is counted"),
        pytest.param("nvidia.com/mig-1g.10gb", False, None, id="so is a MIG profile"),
        pytest.param("nvidia.com/a100", True, None, id="renamed by the device plugin"),
        pytest.param("nvidia.com/gpus", True, "nvidia.com/gpu", id="the plural"),
        pytest.param("Nvidia.com/GPU", True, "nvidia.com/gpu", id="capital letters"),
        pytest.param("nvdia.com/gpu", True, "nvidia.com/gpu", id="a misspelt domain"),
        pytest.param("amd.com/gpus", True, "amd.com/gpu", id="the plural of another vendor's"),
        pytest.param("habana.ai/gaudi2", True, "habana.ai/gaudi", id="a generation"),
        pytest.param("aliyun.com/gpu-count", True, None, id="of another device plugin"),
        pytest.param("nvidia.com/hostdev", False, None, id="network devices of a vendor of GPUs"),
        pytest.param("rdma/hca_shared_devices_a", False, None, id="other devices"),
        pytest.param("gpu.intel.com/i915_monitoring", False, None, id="the counters of Intel's GPUs"),
        pytest.param("cpu", False, None, id="Kubernetes' own"),
    ],
)
def test_looks_like_gpu(name: str, looks_so: bool, meant: str | None) -> None:
    names = ResourceNames()
    assert names.looks_like_gpu(name) is looks_so
    if looks_so:
        assert names.meant_by(name) == meant
