"""MIG as it changes under a running agent: layouts, the mode itself, holes, and instances that are shared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.agent.node_reading import DeviceReading
from scheduler_ext.core.gpu.mig_profile import parse_profile
from tests.agent.nvml_mock.fixtures import Rig
from tests.agent.nvml_mock.library import FakeGpu, FakeMig, FakeProfile
from tests.agent.nvml_mock.presets import a30, a100_80gb_mig, h100, rtx_pro_6000

Placed = list[tuple[str, int | None, int | None]]


def placed(device: DeviceReading) -> Placed:
    return [(instance.profile, instance.start, instance.size) for instance in device.instances]


def test_the_mode_is_switched_on_and_off(rig: Rig) -> None:
    gpu = h100()
    off = rig.device(gpu)
    assert (off.mig_enabled, off.instances, off.samples.utilization_percent) == (False, (), 0)
    gpu.mig = True
    gpu.devices = [FakeMig(uuid="MIG-h100", profile="7g.80gb", gpu_instance_id=0, start=0, size=8)]
    on = rig.device()
    assert (on.mig_enabled, placed(on), on.processes) == (True, [("7g.80gb", 0, 8)], ())
    # Not a number that NVML has for a partitioned GPU.
    assert on.samples.utilization_percent is None
    assert on.profiles == off.profiles
    gpu.mig = False
    assert rig.device() == off


def test_profiles_are_read_again_with_the_mode_and_only_then(rig: Rig) -> None:
    gpu = h100()
    before = rig.device(gpu)
    gpu.profiles = gpu.profiles[:3]
    assert rig.device().profiles == before.profiles
    gpu.mig = True
    assert rig.device().profiles == before.profiles[:3]


def test_a_new_layout_and_holes_in_the_numbering(rig: Rig) -> None:
    gpu = a100_80gb_mig()
    first, second, _ = rig.device(gpu).instances
    gpu.devices = [None, gpu.devices[1], None, gpu.devices[0]]
    assert rig.device().instances == (second, first)


@pytest.mark.parametrize(
    "function", ["nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetComputeRunningProcesses_v3"]
)
@pytest.mark.parametrize("code", [pytest.param(2, id="invalid argument"), pytest.param(6, id="not found")])
def test_an_instance_goes_away_while_it_is_read(rig: Rig, function: str, code: int) -> None:
    gpu = a100_80gb_mig()
    assert gpu.devices[1] is not None
    whole = rig.device(gpu)
    gpu.devices[1].faults = {function: f"{code}*1"}
    assert rig.device() == whole
    # One that goes again and again is left out, and the others stay.
    gpu.devices[1].faults = {function: code}
    assert placed(rig.device()) == [placed(whole)[0], placed(whole)[2]]


@pytest.mark.parametrize(
    ("parts", "start", "size", "expected"),
    [
        pytest.param(
            ["1c.3g.40gb", "2c.3g.40gb"],
            4,
            4,
            [("1c.3g.40gb", 4, 2), ("2c.3g.40gb", 6, 2)],
            id="two have two units each",
        ),
        pytest.param(
            ["1c.3g.40gb"] * 3,
            0,
            4,
            [("1c.3g.40gb", 0, 1), ("1c.3g.40gb", 1, 1), ("1c.3g.40gb", 2, 2)],
            id="the last has the remainder",
        ),
    ],
)
def test_a_gpu_instance_that_is_divided(
    rig: Rig, parts: list[str], start: int, size: int, expected: Placed
) -> None:
    gpu = a100_80gb_mig()
    shared = [
        FakeMig(uuid=f"MIG-{i}", profile=profile, gpu_instance_id=1, start=start, size=size)
        for i, profile in enumerate(parts)
    ]
    gpu.devices = [
        *shared,
        FakeMig(uuid="MIG-other", profile="1g.10gb", gpu_instance_id=13, start=(start + 4) % 8),
    ]
    device = rig.device(gpu)
    assert placed(device)[:-1] == expected
    assert {instance.gpu_instance_id for instance in device.instances[:-1]} == {1}
    # Every unit once: reports in which instances overlap are refused.
    units = [unit for _, at, length in placed(device) for unit in range(at or 0, (at or 0) + (length or 0))]
    assert sorted(units) == sorted([*range(start, start + size), (start + 4) % 8])
    assert all(parse_profile(profile) == profile for profile, _, _ in placed(device))


@pytest.mark.parametrize(
    ("attributes", "profiles"),
    [
        pytest.param((3, 3, 40192), ["3g.40gb"], id="the whole GPU instance"),
        pytest.param((3, 1, 40192), ["1c.3g.40gb"], id="a part of it"),
        pytest.param(None, [], id="without a name it cannot be requested"),
    ],
)
def test_an_instance_that_has_no_name(
    rig: Rig, attributes: tuple[int, int, int] | None, profiles: list[str]
) -> None:
    gpu = a100_80gb_mig()
    gpu.devices = [FakeMig(uuid="MIG-x", gpu_instance_id=1, size=4, attributes=attributes, named=False)]
    assert [profile for profile, _, _ in placed(rig.device(gpu))] == profiles


@pytest.mark.parametrize(
    "gpu",
    [
        pytest.param(a30(), id="A30"),
        pytest.param(rtx_pro_6000(), id="RTX PRO 6000"),
        pytest.param(
            FakeGpu(
                uuid="GPU-h200",
                name="NVIDIA H200",
                total_mib=143771,
                mig=False,
                # Halves of a GB, which Python's own rounding would take to 70.
                profiles=(
                    FakeProfile(2, 9, 3, 2, 71552, "3g.71gb", 4, (0, 4)),
                    FakeProfile(0, 19, 1, 7, 16384, "1g.18gb", 1, (0, 1, 2, 3, 4, 5, 6)),
                ),
            ),
            id="H200",
        ),
    ],
)
def test_names_are_computed_where_the_library_gives_none(rig: Rig, gpu: FakeGpu) -> None:
    gpu.faults = {"nvmlDeviceGetGpuInstanceProfileInfoV": 13}
    assert {profile.name for profile in rig.device(gpu).profiles} == {p.name for p in gpu.profiles}


def test_without_a_name_and_without_the_memory_no_name_can_be_computed(rig: Rig) -> None:
    gpu = h100()
    gpu.faults = dict.fromkeys(("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"), 4)
    assert rig.device(gpu).profiles == ()


def test_profiles_that_share_a_name_are_one(rig: Rig) -> None:
    gpu = a100_80gb_mig()
    gpu.profiles = (*gpu.profiles, replace(gpu.profiles[0], index=17, instances=1))
    # A report that lists a profile twice is refused.
    assert [p.max_instances for p in rig.device(gpu).profiles if p.name == "1g.10gb"] == [7]
