"""GPUs that fail: each with its fault and its last known state, while the others continue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.agent.node_reading import NO_SAMPLES
from tests.agent.nvml_mock.fixtures import Rig
from tests.agent.nvml_mock.library import FakeGpu, Fault
from tests.agent.nvml_mock.presets import a100_80gb_mig, h100, t4


@pytest.mark.parametrize(
    ("faults", "fault"),
    [
        pytest.param({"*": 15}, "GPU is lost", id="it fell off the bus"),
        pytest.param({"*": 999}, "GPU cannot be read", id="no call gives more than an unknown error"),
        pytest.param({"*": 2}, "GPU cannot be read", id="its handle is refused"),
        pytest.param({"nvmlDeviceGetHandleByIndex_v2": 15, "*": 15}, "GPU is lost", id="it has no handle"),
        pytest.param({"nvmlDeviceGetMemoryInfo_v2": 15}, "GPU is lost", id="lost when its memory is read"),
        pytest.param(
            {"nvmlDeviceGetRemappedRows": 16}, "GPU requires a reset", id="found out by the last call"
        ),
        pytest.param(
            {"nvmlDeviceGetMigDeviceHandleByIndex": 15}, "GPU is lost", id="lost among its instances"
        ),
    ],
)
def test_a_gpu_that_fails_keeps_its_last_values(rig: Rig, faults: dict[str, Fault], fault: str) -> None:
    sick, well = a100_80gb_mig(0), h100(1)
    known, other = rig.read(sick, well).devices
    sick.faults = faults
    for _ in range(2):
        first, second = rig.read().devices
        assert second == other
        assert first == replace(
            known,
            faults=(fault,),
            recovery_action=None,
            # NVML's word, and nothing less than a reset ends it.
            reset_pending=True if fault in ("GPU is lost", "GPU requires a reset") else None,
            used_mib=None,
            reserved_mib=None,
            samples=NO_SAMPLES,
            processes=None,
            instances=tuple(replace(instance, processes=None) for instance in known.instances),
        )
    sick.faults = {}
    assert rig.read().devices == (known, other)


def test_changes_of_a_lost_gpu_are_seen_afterwards(rig: Rig) -> None:
    gpu = a100_80gb_mig()
    rig.device(gpu)
    gpu.faults = {"*": 15}
    assert rig.device().faults == ("GPU is lost",)
    # The reset took its instances.
    gpu.faults, gpu.devices, gpu.mig = {}, [], False
    device = rig.device()
    assert (device.faults, device.instances, device.mig_enabled) == ((), (), False)


def test_a_gpu_that_was_lost_before_its_first_reading(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    lost, well = h100(0), t4(1)
    lost.faults = {"nvmlDeviceGetHandleByIndex_v2": 15}
    for _ in range(2):
        assert [(device.uuid, device.index) for device in rig.read(lost, well).devices] == [("GPU-t4-1", 1)]
    assert caplog.messages == ["GPU 0 has never returned its UUID and is not reported: GPU is lost"]
    lost.faults = {}
    assert [device.uuid for device in rig.read().devices] == ["GPU-h100-0", "GPU-t4-1"]


def test_a_gpu_that_reported_its_uuid_and_nothing_else(rig: Rig) -> None:
    gpu = h100()
    gpu.faults = {"nvmlDeviceGetMigMode": 15}
    device = rig.device(gpu)
    assert (device.uuid, device.total_mib, device.faults) == ("GPU-h100-0", 0, ("GPU is lost",))


def test_a_gpu_that_leaves_takes_no_index_of_another(rig: Rig) -> None:
    first, second = h100(0), t4(1)
    rig.read(first, second)
    assert [(device.uuid, device.index) for device in rig.read(second).devices] == [("GPU-t4-1", 0)]
    # The one now at that index is lost: it is distinguished from the earlier one.
    second.faults = {"*": 15, "nvmlDeviceGetHandleByIndex_v2": 15}
    devices = rig.read().devices
    assert [(device.uuid, device.index, device.faults) for device in devices] == [
        ("GPU-t4-1", 0, ("GPU is lost",))
    ]
    assert [device.uuid for device in rig.read(first, t4(1)).devices] == ["GPU-h100-0", "GPU-t4-1"]


def test_a_failed_call_is_tried_again(rig: Rig) -> None:
    gpu = a100_80gb_mig()
    gpu.faults = {"nvmlDeviceGetName": "999*1", "nvmlDeviceGetGpuInstancePossiblePlacements_v2": "27*1"}
    device = rig.device(gpu)
    assert (device.product, device.profiles[0].starts) == (None, None)
    gpu.faults = {}
    device = rig.device()
    assert (device.product, device.profiles[0].size) == (gpu.name, 1)


@pytest.mark.parametrize(
    ("gpu", "function"),
    [
        pytest.param(a100_80gb_mig(), "nvmlDeviceGetMigMode", id="the mode"),
        pytest.param(h100(), "nvmlDeviceGetMPSComputeRunningProcesses_v3", id="processes of MPS"),
        pytest.param(h100(), "nvmlDeviceGetTotalEccErrors", id="errors"),
    ],
)
def test_what_cannot_be_asked_has_not_changed(rig: Rig, gpu: FakeGpu, function: str) -> None:
    known = rig.device(gpu)
    gpu.faults = {function: 2}
    assert rig.device() == known


def test_a_gpu_without_a_handle_is_not_read_by_its_last_one(rig: Rig) -> None:
    gpu = h100(0)
    rig.read(gpu)
    gpu.faults = {"nvmlDeviceGetHandleByIndex_v2": 15}
    first, second = rig.read(gpu, t4(1)).devices
    assert (first.faults, second.faults) == (("GPU is lost",), ())
