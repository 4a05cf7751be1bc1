"""Readings of a healthy GPU, for five models; and with an older library or too few rights."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.agent.node_reading import InstanceReading, Process
from tests.agent.nvml_mock.fixtures import Rig
from tests.agent.nvml_mock.library import MIB, FakeGpu
from tests.agent.nvml_mock.presets import a30, a100_80gb_mig, h100, rtx_pro_6000, t4


@pytest.mark.parametrize(
    ("gpu", "architecture", "capability", "mig_enabled", "grid", "profiles"),
    [
        pytest.param(a100_80gb_mig(), "ampere", (8, 0), True, 8, 7, id="an A100 in MIG mode"),
        pytest.param(
            rtx_pro_6000(), "blackwell", (12, 0), True, 12, 11, id="twelve units of an RTX PRO 6000"
        ),
        pytest.param(a30(), "ampere", (8, 0), True, 4, 5, id="an A30 of four units"),
        pytest.param(h100(), "hopper", (9, 0), False, 8, 7, id="an H100 has its profiles with MIG off"),
        pytest.param(t4(), "turing", (7, 5), False, None, 0, id="a T4 has no MIG"),
    ],
)
def test_each_model(
    rig: Rig,
    gpu: FakeGpu,
    architecture: str,
    capability: tuple[int, int],
    mig_enabled: bool,
    grid: int | None,
    profiles: int,
) -> None:
    gpu.minor = 3
    device = rig.device(gpu)
    assert (device.uuid, device.index, device.minor, device.product) == (gpu.uuid, 0, 3, gpu.name)
    assert (device.architecture, device.compute_capability) == (architecture, capability)
    assert (device.total_mib, device.reserved_mib, device.used_mib) == (gpu.total_mib, 512, 0)
    assert (device.pci_bus_id, device.numa_node) == ("0000:3b:00.0", 0)
    assert (device.mig_enabled, device.grid_size, len(device.profiles)) == (mig_enabled, grid, profiles)
    assert (device.faults, device.xids) == ((), ())
    # Names, sizes, starts and limits are those of the GPU's definition.
    made = [(p.name, p.size, p.starts, p.instances, p.memory_mib) for p in gpu.profiles]
    read = [(p.name, p.size, p.starts, p.max_instances, p.memory_mib) for p in device.profiles]
    assert sorted(read) == sorted(made)


def test_the_instances_of_a_mixed_a100(rig: Rig) -> None:
    device = rig.device(a100_80gb_mig())
    assert device.instances == (
        InstanceReading("MIG-a100-0-3g", "3g.40gb", 4, 4, 2, ()),
        InstanceReading("MIG-a100-0-1g", "1g.10gb", 0, 1, 9, ()),
        InstanceReading("MIG-a100-0-me", "1g.10gb+me", 1, 1, 10, ()),
    )


def test_the_node(rig: Rig) -> None:
    reading = rig.read(h100(0), t4(1))
    assert [(device.uuid, device.index) for device in reading.devices] == [("GPU-h100-0", 0), ("GPU-t4-1", 1)]
    assert (reading.driver_version, reading.cuda_version) == ("570.172.08", "12.8")
    assert (reading.problem, rig.source.must_restart) == (None, False)


@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        pytest.param(
            {"compute": [(7, 3 * MIB), (5, MIB + 1)]},
            (Process(5, 2), Process(7, 3)),
            id="by PID, and a part of a MiB counts as one",
        ),
        pytest.param(
            {"compute": [(5, None)]}, (Process(5, None),), id="memory that the driver does not report"
        ),
        pytest.param(
            {
                "compute": [(5, 4 * MIB)],
                "graphics": [(5, 9 * MIB), (6, MIB)],
                "mps": [(5, None), (8, 2 * MIB)],
            },
            (Process(5, 9, mps=True), Process(6, 1), Process(8, 2, mps=True)),
            id="a process in several lists has its largest memory",
        ),
        pytest.param(
            {"graphics": [(6, MIB)], "faults": {"nvmlDeviceGetComputeRunningProcesses_v3": 4}},
            None,
            id="compute processes are unknown",
        ),
    ],
)
def test_processes(rig: Rig, uses: dict[str, list[object]], expected: tuple[Process, ...] | None) -> None:
    gpu, partitioned = h100(0), a100_80gb_mig(1)
    assert partitioned.devices[0] is not None
    for key, value in uses.items():
        setattr(gpu, key, value)
        setattr(partitioned.devices[0], key, value)
    whole, parts = rig.read(gpu, partitioned).devices
    assert whole.processes == expected
    assert parts.processes == ()
    assert [instance.processes for instance in parts.instances] == [expected, (), ()]


@pytest.mark.parametrize(
    ("mask", "node"),
    [
        pytest.param(0b10, 1, id="one node"),
        pytest.param(0b11, None, id="two are equally near"),
        pytest.param(1 << 63, 63, id="the last of the first word"),
    ],
)
def test_the_numa_node(rig: Rig, mask: int | None, node: int | None) -> None:
    gpu = t4()
    gpu.numa = mask
    assert rig.device(gpu).numa_node == node


def test_an_old_library(old_rig: Rig) -> None:
    device = old_rig.device(a100_80gb_mig())
    # The first version of the memory call counts reserved memory as used.
    assert (device.total_mib, device.reserved_mib, device.used_mib) == (81920, None, 512)
    assert {profile.name for profile in device.profiles} == {p.name for p in a100_80gb_mig().profiles}
    assert {profile.starts for profile in device.profiles} == {None}
    assert device.grid_size is None
    assert [instance.processes for instance in device.instances] == [None, None, None]
    assert device.faults == ()


OPTIONAL = {
    "nvmlDeviceGetName": "product",
    "nvmlDeviceGetMinorNumber": "minor",
    "nvmlDeviceGetArchitecture": "architecture",
    "nvmlDeviceGetCudaComputeCapability": "compute_capability",
    "nvmlDeviceGetMemoryAffinity": "numa_node",
    "nvmlDeviceGetPciInfo_v3": "pci_bus_id",
    "nvmlDeviceGetMigMode": "mig_enabled",
    "nvmlDeviceGetComputeRunningProcesses_v3": "processes",
}


@pytest.mark.parametrize("function", OPTIONAL)
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(2, id="invalid argument"),
        pytest.param(4, id="no permission"),
        pytest.param(6, id="not found"),
        pytest.param(999, id="an unknown error"),
    ],
)
def test_an_unreadable_value_is_none_beside_the_others(rig: Rig, function: str, code: int) -> None:
    whole = rig.device(h100())
    rig.source.close()
    gpu = h100()
    gpu.faults = {function: code}
    device = rig.device(gpu)
    if function == "nvmlDeviceGetMigMode":
        whole = replace(whole, profiles=(), grid_size=None)
    assert device == replace(whole, **{OPTIONAL[function]: None})  # type: ignore[arg-type]


PRIVILEGED = (
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlDeviceGetGpuInstanceById",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceRegisterEvents",
)


def test_without_any_right(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    gpu = a100_80gb_mig()
    gpu.faults = dict.fromkeys(PRIVILEGED, 4)
    device = rig.device(gpu)
    assert [(i.uuid, i.profile, i.start, i.size, i.gpu_instance_id) for i in device.instances] == [
        ("MIG-a100-0-3g", "3g.40gb", None, None, 2),
        ("MIG-a100-0-1g", "1g.10gb", None, None, 9),
        ("MIG-a100-0-me", "1g.10gb+me", None, None, 10),
    ]
    assert {(p.size, p.starts) for p in device.profiles} == {(None, None)}
    assert device.grid_size is None
    # The memory of the largest profile, because the total may not be read.
    assert (device.total_mib, device.used_mib, device.reserved_mib) == (80896, None, None)
    assert device.faults == ()
    rig.device()
    # Each once, however often it is read; and with a hint. The memory's two versions have one name.
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(set(said)) == len(gpu.faults) - 1
    assert all("Insufficient Permissions; the agent needs CAP_SYS_ADMIN" in text for text in said)
