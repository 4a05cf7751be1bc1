"""Any values of a driver lead to a report that the API server and the extender accept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from scheduler_ext.agent.activity import Activity
from scheduler_ext.agent.fitting import fitting
from scheduler_ext.agent.gpu_health import GpuHealth
from scheduler_ext.agent.holders import DeviceHolders
from scheduler_ext.agent.node_reading import (
    DeviceReading,
    InstanceReading,
    NodeReading,
    ProfileReading,
    Samples,
)
from scheduler_ext.agent.node_status import node_status
from scheduler_ext.wire.gpunode import HolderStatus, plain, read_gpu_node, status_body
from scheduler_ext.wire.report import read_report
from tests.agent.crd_rules import refusals

GPU = DeviceReading("GPU-0", 0, 81920)
_odd_numbers = st.one_of(st.integers(-5, 20), st.integers(-(2**40), 2**40))
_odd_texts = st.one_of(
    st.sampled_from(("", "GPU a", "GPU-a", "G" * 97, "0000:3b:00.0", "12.8", "1000.0", "a\n")),
    st.text("GPU-a0:. \n\x00é", max_size=9),
)


@st.composite
def odd_devices(draw: DrawFn) -> DeviceReading:
    number = st.one_of(st.none(), _odd_numbers)
    text = st.one_of(st.none(), _odd_texts)
    names = st.sampled_from(("1g.10gb", "3g.40gb"))
    samples = st.builds(Samples, number, number, sm_clock_mhz=number, temperature_celsius=number)
    profiles = st.builds(ProfileReading, names, number, st.tuples(_odd_numbers), _odd_numbers, number)
    instances = st.builds(InstanceReading, _odd_texts, names, number, number)
    return DeviceReading(
        uuid=draw(_odd_texts),
        index=draw(_odd_numbers),
        total_mib=draw(_odd_numbers),
        product=draw(text),
        architecture=draw(text),
        compute_capability=draw(st.one_of(st.none(), st.tuples(_odd_numbers, _odd_numbers))),
        reserved_mib=draw(number),
        used_mib=draw(number),
        samples=draw(samples),
        numa_node=draw(number),
        pci_bus_id=draw(text),
        mig_enabled=draw(st.booleans()),
        grid_size=draw(st.one_of(st.just(8), number)),
        profiles=tuple(draw(st.lists(profiles, max_size=3))),
        instances=tuple(draw(st.lists(instances, max_size=6))),
    )


@given(st.lists(odd_devices(), max_size=3), _odd_texts, _odd_numbers)
def test_odd_readings_are_taken(devices: list[DeviceReading], version: str, used: int) -> None:
    held = DeviceHolders((HolderStatus(namespace="ml", name="train", memory_mib=used),), {}, used)
    reading = NodeReading(tuple(devices), driver_version=version, cuda_version=version)
    status = node_status(
        reading,
        {device.uuid: Activity().observe(device, held, None, 0.0) for device in devices},
        GpuHealth(),
        0,
    )
    assert refusals(plain("n", status)["status"]) == []
    assert read_report(read_gpu_node(status_body("n", status))) is not None
    assert len(status.devices or ()) == len(fitting(devices)[0])


@pytest.mark.parametrize(
    ("device", "said"),
    [
        (replace(GPU, uuid="G" * 97, index=1), f"GPU 1 has no usable UUID: '{'G' * 97}'"),
        (replace(GPU, index=1), "GPU 1 has the UUID of another: GPU-0"),
        (replace(GPU, uuid="GPU-b"), "GPU 0 has no index of its own from 0 to 1023"),
        (replace(GPU, uuid="GPU-b", index=1024), "GPU 1024 has no index of its own from 0 to 1023"),
    ],
)
def test_invalid_devices_are_left_out(device: DeviceReading, said: str) -> None:
    assert fitting([GPU, device]) == ((GPU,), (said,))


def test_a_gpu_for_displays_is_no_gpu() -> None:
    display = replace(GPU, uuid="GPU-3", index=3, product="NVIDIA DGX Display")
    assert fitting([GPU, display]) == ((GPU,), ())


def test_memory_that_nvml_does_not_state_is_not_used_up() -> None:
    used = DeviceHolders((HolderStatus(namespace="ml", name="train", memory_mib=500),), {}, None)
    spark = replace(GPU, product="NVIDIA GB10", total_mib=0)
    observed = {spark.uuid: Activity().observe(spark, used, None, 0.0)}
    status = node_status(NodeReading((spark,)), observed, GpuHealth(), 0)
    written = plain("n", status)["status"]
    assert refusals(written) == []
    assert written["devices"][0]["memory"] == {"totalMiB": 0}
    assert written["devices"][0]["holders"][0]["memoryMiB"] == 500, "of its processes it is known"
    assert "memoryUsedPercent" not in written["summary"]


def test_a_node_with_more_gpus_than_a_report_can_have() -> None:
    gpus = [replace(GPU, uuid=f"GPU-{n}", index=n) for n in range(65)]
    assert fitting(gpus) == (
        tuple(gpus[:64]),
        ("GPU 64 is one more than the 64 that a report can have",),
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param({"numa_node": 5000}, {}, id="a NUMA node beyond any machine"),
        pytest.param({"numa_node": -1}, {"numaNode": -1}, id="no NUMA node"),
        pytest.param({"pci_bus_id": "zz"}, {}, id="no address"),
        pytest.param({"compute_capability": (100, 0)}, {}, id="a capability of three digits"),
    ],
)
def test_odd_values_are_bounded_or_left_out(changes: dict[str, object], told: dict[str, object]) -> None:
    odd = replace(GPU, uuid="GPU-odd", index=1, **changes)  # type: ignore[arg-type]
    status = plain("n", node_status(NodeReading((GPU, odd)), {}, GpuHealth(), 0))["status"]
    usual, found = status["devices"]
    assert found == usual | {"uuid": "GPU-odd", "index": 1} | told
