"""GPUs that fail: each with its fault and its last known state, while the others continue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.agent.node_reading import NO_SAMPLES
from tests.agent.nvml_mock.fixtures import Rig
from tests.agent.nvml_mock.library import FakeGpu, Fault
from tests.agent.nvml_mock.presets import a100_80gb_mig, h100, t4

FAULTS = [
    pytest.param({"*": 15}, "GPU is lost", id="it fell off the bus"),
    pytest.param({"*": 999}, "GPU cannot be read", id="no call gives more than an unknown error"),
    pytest.param({"*": 2}, "GPU cannot be read", id="its handle is refused"),
    pytest.param({"nvmlDeviceGetHandleByIndex_v2": 15, "*": 15}, "GPU is lost", id="it has no handle"),
    pytest.param({"nvmlDeviceGetMemoryInfo_v2": 15}, "GPU is lost", id="lost when its memory is read"),
    pytest.param({"nvmlDeviceGetRemappedRows": 16}, "GPU requires a reset", id="found out by the last call"),
    pytest.param({"nvmlDeviceGetMigDeviceHandleByIndex": 15}, "GPU is lost", id="lost among its instances"),
]


@pytest.mark.parametrize(("faults", "fault"), FAULTS)
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


@pytest.mark.parametrize(("faults", "fault"), FAULTS[:1])
def test_changes_of_a_lost_gpu_are_seen_afterwards(rig: Rig, faults: dict[str, Fault], fault: str) -> None:
    gpu = a100_80gb_mig()
    rig.device(gpu)
    gpu.faults = faults
    assert rig.device().faults == (fault,)
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


def remapped(rows: str | None) -> FakeGpu:
    gpu = h100()
    gpu.remapped = rows
    return gpu


@pytest.mark.parametrize(
    ("rows", "faults"),
    [
        pytest.param("0,0,0,0", (), id="no row was ever remapped"),
        pytest.param("0,9,0,1", ("row remapping failed",), id="no row is left to remap to"),
    ],
)
def test_remapped_rows(rig: Rig, rows: str | None, faults: tuple[str, ...]) -> None:
    assert rig.device(remapped(rows)).faults == faults


def test_a_failed_remapping_is_not_forgotten_where_it_cannot_be_asked(rig: Rig) -> None:
    gpu = remapped("0,9,0,1")
    rig.device(gpu)
    gpu.faults = {"nvmlDeviceGetRemappedRows": 3}
    assert rig.device().faults == ("row remapping failed",)
    gpu.faults, gpu.remapped = {}, "0,0,0,0"
    assert rig.device().faults == ()


def test_a_failed_call_is_tried_again(rig: Rig) -> None:
    gpu = a100_80gb_mig()
    gpu.faults = {"nvmlDeviceGetName": "999*1", "nvmlDeviceGetGpuInstancePossiblePlacements_v2": "27*1"}
    device = rig.device(gpu)
    assert (device.product, device.profiles[0].starts) == (None, None)
    gpu.faults = {}
    device = rig.device()
    assert (device.product, device.profiles[0].size) == (gpu.name, 1)


@pytest.mark.parametrize("code", [pytest.param(2, id="invalid argument"), pytest.param(6, id="not found")])
@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetName",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetTotalEccErrors",
    ],
)
def test_one_field_that_is_refused_does_not_condemn_the_gpu(rig: Rig, function: str, code: int) -> None:
    gpu = a100_80gb_mig()
    known = rig.device(gpu)
    gpu.faults = {function: code}
    device = rig.device()
    assert (device.faults, device.used_mib) == ((), 0)
    # A mode that cannot be asked has not changed.
    assert device.mig_enabled
    assert len(device.instances) == len(known.instances) or function != "nvmlDeviceGetMigMode"


def test_a_gpu_without_a_handle_is_not_read_by_its_last_one(rig: Rig) -> None:
    gpu = h100(0)
    rig.read(gpu)
    gpu.faults = {"nvmlDeviceGetHandleByIndex_v2": 15}
    first, second = rig.read(gpu, t4(1)).devices
    assert (first.faults, second.faults) == (("GPU is lost",), ())
