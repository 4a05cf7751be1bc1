"""The status of a reading: complete, without additions, and accepted by every reader."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from scheduler_ext.agent.activity import Activity, ObservedGpu
from scheduler_ext.agent.gpu_health import XIDS, GpuHealth
from scheduler_ext.agent.holders import DeviceHolders
from scheduler_ext.agent.node_reading import DeviceReading, InstanceReading, NodeReading
from scheduler_ext.agent.node_status import node_status
from scheduler_ext.wire.gpunode import HolderStatus, SharingStatus, plain, read_gpu_node, status_body
from scheduler_ext.wire.report import read_report
from tests.agent.crd_rules import refusals
from tests.agent.nvml_mock.fixtures import Rig
from tests.agent.nvml_mock.presets import a100_80gb_mig, h100, t4
from tests.agent.readings import FAULTS, holdings_of, node_readings
from tests.kube_objects import Json

GPU = DeviceReading("GPU-0", 0, 81920, product="NVIDIA H100 80GB HBM3", reserved_mib=500, used_mib=1000)


def written(*devices: DeviceReading, held: DeviceHolders | None = None, **reading: Any) -> Json:
    """The status of a node with these devices, as plain values."""
    observed = {devices[0].uuid: ObservedGpu(held)} if held is not None else {}
    status: Json = plain("n", node_status(NodeReading(devices, **reading), observed, GpuHealth(), 1000))[
        "status"
    ]
    return status


def device(reading: DeviceReading, held: DeviceHolders | None = None) -> Json:
    (found,) = written(reading, held=held)["devices"]
    return dict(found)


def test_a_whole_reading_is_written_field_by_field(rig: Rig) -> None:
    reading = rig.read(a100_80gb_mig(), h100(1), t4(2))
    status = plain("n", node_status(reading, {}, GpuHealth(), 1000, "mixed", SharingStatus("mps", 4)))[
        "status"
    ]
    assert refusals(status) == []
    first, second, third = status.pop("devices")
    assert status == {
        "driverVersion": "570.172.08",
        "cudaVersion": "12.8",
        "migStrategy": "mixed",
        "sharing": {"strategy": "mps", "replicas": 4},
        "summary": {"gpus": 3, "healthy": 3, "model": "A100-80GB, H100-80GB, T4", "memoryUsedPercent": 0},
    }
    assert second["mig"].pop("profiles")
    assert second == {
        "uuid": "GPU-h100-1",
        "index": 1,
        "vendor": "nvidia",
        "model": "H100-80GB",
        "product": "NVIDIA H100 80GB HBM3",
        "architecture": "hopper",
        "computeCapability": "9.0",
        "memory": {"totalMiB": 81559, "reservedMiB": 512, "usedMiB": 0},
        "health": {"state": "Healthy"},
        "numaNode": 0,
        "pciBusID": "0000:3b:00.0",
        "mig": {"enabled": False, "gridSize": 8},
    }
    assert third["mig"] == {"enabled": False}
    assert first["mig"]["instances"] == [
        {"uuid": "MIG-a100-0-3g", "profile": "3g.40gb", "start": 4, "size": 4},
        {"uuid": "MIG-a100-0-1g", "profile": "1g.10gb", "start": 0, "size": 1},
        {"uuid": "MIG-a100-0-me", "profile": "1g.10gb+me", "start": 1, "size": 1},
    ]


@pytest.mark.parametrize(
    ("numbers", "unaccounted", "memory"),
    [
        pytest.param((500, 1000), 300, (500, 1000, 300), id="as they are"),
        pytest.param((500, None), 300, (500, None, None), id="nor is a part of a use that is not known"),
        pytest.param((500, 1000), 2000, (500, 1000, 1000), id="read a moment later, when there was more"),
        pytest.param((500, 81900), 81900, (500, 81420, 81420), id="together more than there is"),
        pytest.param((None, 90000), None, (None, 81920, None), id="more than there is"),
    ],
)
def test_memory_adds_up(
    numbers: tuple[int | None, int | None],
    unaccounted: int | None,
    memory: tuple[int | None, int | None, int | None],
) -> None:
    reading = DeviceReading("GPU-0", 0, 81920, reserved_mib=numbers[0], used_mib=numbers[1])
    told = device(reading, DeviceHolders(unaccounted_mib=unaccounted))["memory"]
    fields = ("reservedMiB", "usedMiB", "unaccountedMiB")
    assert told == {"totalMiB": 81920} | {k: v for k, v in zip(fields, memory, strict=True) if v is not None}


class TestHealth:
    def test_a_fault_is_the_devices_own(self) -> None:
        lost = DeviceReading("GPU-1", 1, 81920, faults=FAULTS[:1])
        status = written(lost, GPU)
        well, ill = (found["health"] for found in status["devices"])
        assert (well, ill["state"], ill["recovery"]) == ({"state": "Healthy"}, "Unhealthy", "GPUReset")
        assert (status["summary"]["gpus"], status["summary"]["healthy"]) == (2, 1)

    def test_an_xid_read_while_the_driver_was_away_counts_when_it_is_back(self) -> None:
        health = GpuHealth()
        with_xid = DeviceReading("GPU-0", 0, 81920, xids=(79,))
        node_status(NodeReading((with_xid,), problem="the NVIDIA driver is not loaded"), {}, health, 1000)
        back = node_status(NodeReading((GPU,)), {}, health, 1005)
        (told,) = plain("n", back)["status"]["devices"]
        assert told["health"]["reason"] == "XID 79: GPU has fallen off the bus; needs a reboot of the node"

    def test_lasting_errors_are_reported_while_the_driver_is_away(self) -> None:
        """An agent that starts then finds it in the report only."""
        health = GpuHealth()
        broken = DeviceReading("GPU-1", 1, 81920, xids=(48,), reset_pending=True)
        node_status(NodeReading((GPU, broken)), {}, health, 1000)
        away = NodeReading((GPU, DeviceReading("GPU-1", 1, 81920)), problem="the NVIDIA driver is not loaded")
        told = plain("n", node_status(away, {}, health, 1005))["status"]["devices"]
        assert [found["health"]["reason"] for found in told] == [
            "the NVIDIA driver is not loaded",
            "XID 48: double-bit ECC error; needs a GPU reset",
        ]
        assert told[1]["health"]["resetPending"]


def test_the_holder_of_an_instance() -> None:
    instances = (InstanceReading("MIG-a", "1g.10gb"), InstanceReading("MIG-b", "1g.10gb"))
    reading = DeviceReading("GPU-0", 0, 81920, mig_enabled=True, instances=instances)
    told = device(reading, DeviceHolders((), {"MIG-b": HolderStatus(uid="uid-b", memory_mib=70)}))
    assert told["mig"]["instances"] == [
        {"uuid": "MIG-a", "profile": "1g.10gb"},
        {"uuid": "MIG-b", "profile": "1g.10gb", "holder": {"uid": "uid-b", "memoryMiB": 70}},
    ]
    assert "holders" not in told


def test_texts_are_cut_and_have_no_control_characters() -> None:
    odd = DeviceReading("GPU-0", 0, 81920, product="a\x1b[2J" + 200 * "x")
    status = written(odd, driver_version="5\n0" + 100 * "5", problem=2000 * "\x00")
    assert refusals(status) == []
    assert status["devices"][0]["product"] == "a?[2J" + 123 * "x"


def test_a_summary_too_long_to_show_is_left_out() -> None:
    devices = [DeviceReading(f"GPU-{i}", i, 1000 + i, product=f"{i}" + 60 * "x") for i in range(5)]
    status = written(*devices)
    assert "model" not in status["summary"]
    assert refusals(status) == []


def with_numbers(status: Json) -> Json:
    return {"reportedAt": "2026-11-21T07:00:00Z", "sequence": 1, "bootID": "b"} | status


def test_whatever_is_read_is_taken_by_the_api_server_and_by_the_reader() -> None:
    seen: Counter[str] = Counter()

    # Few readings have an instance with a place.
    @given(st.data(), node_readings())
    def taken(data: DataObject, reading: NodeReading) -> None:
        holdings = data.draw(holdings_of(reading))
        pod_of = data.draw(st.sampled_from((None, {1: None, 2: "1f2e3d4c-1111-2222-3333-444455556666"}.get)))
        activity = Activity()
        observed = {
            gpu.uuid: activity.observe(gpu, holdings.get(gpu.uuid, DeviceHolders()), pod_of, 0.0)
            for gpu in reading.devices
        }
        sharing = data.draw(st.sampled_from((None, SharingStatus("time-slicing", 4))))
        strategy = data.draw(st.sampled_from((None, "mixed")))
        status = node_status(reading, observed, GpuHealth(), 0, strategy, sharing)
        told = plain("n", status)["status"]
        assert refusals(with_numbers(told)) == []
        report = read_report(read_gpu_node(status_body("n", status)))
        assert report is not None
        assert [gpu.uuid for gpu in report.devices] == [
            gpu.uuid for gpu in sorted(reading.devices, key=lambda gpu: gpu.index)
        ]
        by_uuid = {gpu.uuid: gpu for gpu in reading.devices}
        for gpu in told["devices"]:
            read = by_uuid[gpu["uuid"]]
            held = holdings.get(gpu["uuid"], DeviceHolders())
            # Never guessed, and no part of an unknown total.
            used_is_known = read.used_mib is not None and read.total_mib > 0
            assert ("usedMiB" in gpu["memory"]) == used_is_known
            unaccounted_is_known = held.unaccounted_mib is not None and used_is_known
            assert ("unaccountedMiB" in gpu["memory"]) == unaccounted_is_known
            assert len(gpu.get("holders", [])) == len(held.holders)
            unhealthy = bool(reading.problem or read.faults or XIDS.keys() & read.xids)
            assert (gpu["health"]["state"] == "Unhealthy") == unhealthy
            placed = [i for i in gpu.get("mig", {}).get("instances", []) if "start" in i]
            seen.update(instances=len(placed), unhealthy=unhealthy, holders="holders" in gpu, devices=1)
            seen.update(profiles=sum(bool(p["starts"]) for p in gpu.get("mig", {}).get("profiles", [])))

    taken()
    # The examples cover every kind of part.
    assert min(seen[what] for what in ("instances", "profiles", "unhealthy", "holders", "devices")) > 0, seen


def test_unreadable_values_are_left_out() -> None:
    assert device(DeviceReading("GPU-0", 3, 0)) == {
        "uuid": "GPU-0",
        "index": 3,
        "vendor": "nvidia",
        "model": "UNKNOWN",
        "memory": {"totalMiB": 0},
        "health": {"state": "Healthy"},
    }
