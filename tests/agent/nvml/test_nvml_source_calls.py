"""How many calls a reading costs: each is a system call into the driver."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.agent.nvml_mock.fixtures import Rig
from tests.agent.nvml_mock.library import FakeGpu
from tests.agent.nvml_mock.presets import a30, a100_80gb_mig, h100, rtx_pro_6000, t4

ONCE = (
    "nvmlInitWithFlags",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetMemoryAffinity",
    "nvmlDeviceGetGpuInstanceProfileInfoV",
    "nvmlDeviceGetGpuInstanceProfileInfo",
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlEventSetCreate",
    "nvmlDeviceGetSupportedEventTypes",
    "nvmlDeviceRegisterEvents",
)


def steady(rig: Rig, *gpus: FakeGpu) -> Counter[str]:
    """The calls of a reading that finds nothing new."""
    for _ in range(2):
        rig.node.forget_calls()
        rig.read(*gpus)
    return rig.node.calls()


def test_constant_values_are_read_once(rig: Rig) -> None:
    gpus = [a100_80gb_mig(0), h100(1), a30(2), rtx_pro_6000(3), t4(4)]
    rig.read(*gpus)
    first = rig.node.calls()
    assert {name for name in ONCE if first[name]} == set(ONCE)
    assert {name for name in ONCE if steady(rig)[name]} == set()


@pytest.mark.parametrize(
    ("gpu", "bound"),
    [
        # Count and events; then mode, memory, recovery action, rows, ECC errors, three kinds of processes;
        # power, temperature, clock, throttling, utilisation, processes' use, encoder, decoder.
        pytest.param(h100(), 2 + 8 + 8, id="a whole GPU"),
        # Pages, too, as it has no rows.
        pytest.param(t4(), 2 + 9 + 8, id="a GPU without MIG"),
        # Mode, memory, recovery action, rows, ECC errors, how many devices there can be, four samples and
        # seven handles; then eight for each instance: UUID, name, GPU instance, handle, place, three kinds of
        # processes.
        pytest.param(a100_80gb_mig(), 2 + 17 + 3 * 8, id="three instances"),
    ],
)
def test_a_steady_reading_is_cheap(rig: Rig, gpu: FakeGpu, bound: int) -> None:
    assert steady(rig, gpu).total() <= bound


def test_a_gpu_that_stays_lost_does_not_cost_the_others(rig: Rig) -> None:
    lost, well = a100_80gb_mig(0), h100(1)
    rig.read(lost, well)
    lost.faults = {"*": 15}
    calls = steady(rig)
    once = ("nvmlInitWithFlags", "nvmlDeviceGetMinorNumber", "nvmlEventSetCreate")
    assert [calls[name] for name in once] == [0, 0, 0]
