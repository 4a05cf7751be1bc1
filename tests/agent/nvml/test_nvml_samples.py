"""Samples of GPUs from NVML."""

from __future__ import annotations

import time
from dataclasses import fields, replace

import pytest

from scheduler_ext.agent.node_reading import Samples
from tests.agent.nvml_mock.fixtures import Rig
from tests.agent.nvml_mock.presets import a100_80gb_mig, h100

IDLE = Samples(0, 0, 60.0, 34, 345, (), False, frozenset())
# Values that a GPU may not have, and the calls behind them.
CALLS = {
    "power_watts": "nvmlDeviceGetPowerUsage",
    "temperature_celsius": "nvmlDeviceGetTemperature",
    "sm_clock_mhz": "nvmlDeviceGetClockInfo",
    "throttle_reasons": "nvmlDeviceGetCurrentClocksEventReasons",
    "busy_pids": "nvmlDeviceGetProcessUtilization",
}


def test_a_busy_gpu(rig: Rig) -> None:
    gpu = h100()
    gpu.utilization, gpu.memory_utilization, gpu.milliwatts = 97, 40, 699_500
    gpu.celsius, gpu.clock_mhz, gpu.throttle = 71, 1980, 0x4 | 0x20
    gpu.busy, gpu.busy_at = {100: (90, 0), 200: (0, 0)}, 5_000_000
    assert rig.device(gpu).samples == Samples(
        97, 40, 699.5, 71, 1980, ("PowerCap", "ThermalSlowdown"), True, frozenset({100})
    )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"utilization": 1}, id="a kernel ran"),
        pytest.param({"encoder": 3}, id="it encodes video, which is no utilisation"),
        pytest.param({"busy": {7: (1, 0)}, "busy_at": 9}, id="a process was busy between two readings"),
        pytest.param({"busy": {7: (0, 1)}, "busy_at": 9}, id="a process decoded between two readings"),
    ],
)
def test_a_gpu_that_computes(rig: Rig, change: dict[str, object]) -> None:
    gpu = h100()
    assert not rig.device(gpu).samples.computing
    for name, value in change.items():
        setattr(gpu, name, value)
    assert rig.device(gpu).samples.computing


def test_a_sample_counts_once(rig: Rig) -> None:
    gpu = h100()
    gpu.busy, gpu.busy_at = {100: (90, 0)}, 5_000_000
    assert rig.device(gpu).samples.busy_pids == frozenset({100})
    assert rig.device(gpu).samples.busy_pids == frozenset()
    gpu.busy_at += 1
    assert rig.device(gpu).samples.busy_pids == frozenset({100})


def test_a_clock_that_was_ahead_hides_no_process(rig: Rig) -> None:
    """The driver stamps samples with the time of the host."""
    gpu = h100()
    gpu.busy, gpu.busy_at = {100: (90, 0)}, int((time.time() + 3600) * 1e6)
    rig.device(gpu)
    gpu.busy_at = int((time.time() + 5) * 1e6)
    assert rig.device(gpu).samples.busy_pids == frozenset({100})


@pytest.mark.parametrize("name", CALLS)
def test_a_value_that_this_gpu_does_not_have(rig: Rig, name: str) -> None:
    gpu = h100()
    gpu.faults = {CALLS[name]: 3}
    assert rig.device(gpu).samples == replace(IDLE, **{name: None})


def test_a_gpu_without_utilisation_may_be_computing(rig: Rig) -> None:
    gpu = h100()
    gpu.utilization = None
    samples = rig.device(gpu).samples
    assert (samples.utilization_percent, samples.memory_utilization_percent) == (None, None)
    assert samples.computing is None


def test_a_gpu_of_instances_has_only_values_of_the_whole(rig: Rig) -> None:
    samples = rig.device(a100_80gb_mig()).samples
    unknown = {each.name for each in fields(samples) if getattr(samples, each.name) is None}
    assert unknown == {"utilization_percent", "memory_utilization_percent", "computing", "busy_pids"}
    assert (samples.power_watts, samples.temperature_celsius) == (60.0, 34)


def test_an_older_driver_has_the_reasons_under_their_former_name(old_rig: Rig) -> None:
    gpu = h100()
    gpu.throttle = 0x80
    assert old_rig.device(gpu).samples.throttle_reasons == ("PowerBrake",)


def test_a_gpu_that_is_lost_has_no_samples(rig: Rig) -> None:
    gpu = h100()
    rig.device(gpu)
    gpu.faults = {"nvmlDeviceGetPowerUsage": 15}
    lost = rig.device(gpu)
    assert (lost.faults, lost.samples) == (("GPU is lost",), Samples())
