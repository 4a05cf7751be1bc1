"""A new agent on a node where some GPUs, or all, do not answer any more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.agent.gpu_health import GpuHealth
from scheduler_ext.agent.node_reading import DeviceReading, NodeReading
from scheduler_ext.agent.node_status import node_status
from scheduler_ext.agent.nvml_source import NvmlSource
from scheduler_ext.agent.observer import last_reading
from scheduler_ext.wire.gpunode import read_gpu_node, status_body
from tests.agent.nvml_mock.fixtures import Rig
from tests.agent.nvml_mock.library import FakeGpu, Fault
from tests.agent.nvml_mock.presets import a100_80gb_mig, h100, rtx_pro_6000, t4

NO_HANDLE: dict[str, Fault] = {"nvmlDeviceGetHandleByIndex_v2": 15}


def reported(reading: NodeReading) -> tuple[DeviceReading, ...]:
    """The reading as a new agent finds it in the cluster."""
    written = read_gpu_node(status_body("n", node_status(reading, {}, GpuHealth(), 0))).status
    assert written is not None
    return tuple(map(last_reading, written.devices or ()))


def restarted(rig: Rig, *gpus: FakeGpu) -> None:
    """Another agent, which knows the earlier agent's report of the node with these GPUs, if any."""
    known = reported(rig.read(*gpus)) if gpus else ()
    rig.source.close()
    rig.source = NvmlSource(rig.library, lambda: rig.now_s)
    rig.source.remember(known)


@pytest.mark.parametrize("gpu", [h100(), rtx_pro_6000(), t4()], ids=lambda gpu: gpu.name)
def test_a_report_is_read_back_as_it_was_written(rig: Rig, gpu: FakeGpu) -> None:
    reading = rig.read(gpu)
    (known,) = reported(reading)
    (again,) = node_status(NodeReading((known,)), {}, GpuHealth(), 0).devices or []
    (before,) = node_status(reading, {}, GpuHealth(), 0).devices or []
    assert again == before.but(memory=before.memory.but(used_mib=None, reserved_mib=None))


def test_a_gpu_that_was_lost_before_it_began(rig: Rig) -> None:
    lost, well = a100_80gb_mig(0), t4(1)
    restarted(rig, lost, well)
    lost.faults = NO_HANDLE | {"*": 15}
    for _ in range(2):
        first, second = rig.read().devices
        assert (first.uuid, first.index, first.faults) == (lost.uuid, 0, ("GPU is lost",))
        assert (first.product, first.total_mib, len(first.instances)) == (lost.name, 81920, 3)
        assert second.faults == ()
    lost.faults = {}
    assert [device.faults for device in rig.read().devices] == [(), ()]


def test_facts_that_it_learns_only_after_a_reading(rig: Rig) -> None:
    lost, well = h100(0), t4(1)
    known = reported(rig.read(lost, well))
    restarted(rig)
    lost.faults = NO_HANDLE
    assert [device.uuid for device in rig.read().devices] == [well.uuid]
    rig.source.remember(known)
    assert [device.uuid for device in rig.read().devices] == [lost.uuid, well.uuid]


def test_a_gpu_that_is_not_counted_any_more_is_gone(rig: Rig) -> None:
    restarted(rig, h100(0), t4(1))
    assert [device.uuid for device in rig.read(h100(0)).devices] == ["GPU-h100-0"]


def test_a_node_with_unreadable_gpus_is_not_a_node_without_gpus(rig: Rig) -> None:
    lost = h100()
    lost.faults = NO_HANDLE
    reading = rig.read(lost)
    assert (reading.devices, reading.problem) == ((), "no GPU returns its UUID: GPU is lost")
    lost.faults = {}
    reading = rig.read()
    assert (len(reading.devices), reading.problem) == (1, None)
    assert replace(rig.read(), devices=()) == replace(reading, devices=())


def test_another_gpu_in_its_place(rig: Rig) -> None:
    restarted(rig, h100(0))
    assert [device.uuid for device in rig.read(t4(0)).devices] == ["GPU-t4-0"]
