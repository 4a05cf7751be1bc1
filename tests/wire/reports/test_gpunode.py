"""GPUNode reports: the fields that are read."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from scheduler_ext.core.gpu.gpu import Holder, Memory, MigInstance
from tests.kube_objects import Json, gpu
from tests.wire.reports.gpunode_status import FULL, changed, read, report_of


def test_the_full_schema_is_read() -> None:
    report = report_of(FULL)
    assert (report.reported_at, report.sequence, report.boot_id) == ("2026-11-20T13:10:16Z", 42, "b7f3ed75")
    assert (report.driver_version, report.cuda_version) == ("570.124.06", (12, 8))
    assert (report.mig_strategy, report.sharing_strategy, report.replicas) == ("mixed", "none", 1)
    (device,) = report.devices
    assert (device.uuid, device.index, device.vendor) == ("GPU-0", 0, "nvidia")
    assert (device.model.name, device.product) == ("A100-80GB", "NVIDIA A100-SXM4-80GB")
    assert device.compute_capability == (8, 0)
    assert device.memory == Memory(81920, 620, 5000, 100)
    assert (device.healthy, device.health_reason) == (False, "XID 79")
    assert (device.mig.enabled, device.mig.creatable) == (True, False)
    assert device.mig.geometry is not None
    assert [profile.name for profile in device.mig.geometry.profiles] == ["1g.10gb", "3g.40gb"]
    assert device.mig.instances == (
        MigInstance("MIG-a", "3g.40gb", 0, 4),
        MigInstance("MIG-b", "1g.10gb", 4, 1, Holder(None, "ns", "p")),
    )
    assert device.holders == (Holder("u1", "ns", "p", "main", 4000), Holder(None, "ns", "q"))


def nulls(value: Any) -> Any:
    """The value with every optional field null."""
    required = {
        "uuid",
        "index",
        "memory",
        "totalMiB",
        "profile",
        "start",
        "size",
        "name",
        "starts",
        "maxInstances",
        "devices",
    }
    if isinstance(value, list):
        return [nulls(item) for item in value]
    if isinstance(value, dict):
        return {key: nulls(item) if key in required else None for key, item in value.items()}
    return value


def test_null_is_absent_everywhere() -> None:
    minimal = {"devices": [{"uuid": "GPU-0", "index": 0, "memory": {"totalMiB": 81920}}]}
    assert report_of(nulls(FULL)) == report_of(minimal)


def test_absent_fields_have_the_plain_meaning() -> None:
    report = report_of({"devices": [{"uuid": "GPU-0", "index": 0, "memory": {"totalMiB": 81920}}]})
    assert (report.mig_strategy, report.sharing_strategy, report.replicas) == ("none", "none", 1)
    (device,) = report.devices
    assert device.healthy
    assert (device.vendor, device.memory, device.holders) == ("nvidia", Memory(81920), ())
    assert device.memory.unaccounted_mib is None


def test_unknown_fields_are_tolerated_on_every_level() -> None:
    status = copy.deepcopy(FULL)
    device = status["devices"][0]
    for part in (
        status,
        device,
        device["memory"],
        device["mig"],
        device["mig"]["profiles"][0],
        device["holders"][0],
    ):
        part["fromTheFuture"] = {"any": ["thing", 1, None]}
    assert report_of(status) == report_of(FULL)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({}, id="an empty status"),
        pytest.param({"devices": None}, id="null devices and no sequence"),
    ],
)
def test_an_unwritten_gpunode_is_no_report(status: Json | None) -> None:
    node = read(status)
    assert node.report is None
    assert node.freshness == "Missing"


def test_a_report_of_no_devices_is_a_report() -> None:
    assert report_of({"sequence": 1}).devices == ()
    assert report_of({"devices": []}).devices == ()


SMALL = {"memory": {"totalMiB": 15360}}


@pytest.mark.parametrize(
    ("fields", "name", "capability"),
    [
        pytest.param(SMALL | {"model": "T4", "product": "NVIDIA L4"}, "T4", (7, 5), id="the model field"),
        pytest.param(SMALL | {"model": None, "product": "NVIDIA L4"}, "L4", (8, 9), id="else the product"),
        pytest.param(
            {"model": None, "product": "NVIDIA A100-PCIE"}, "A100-80GB", (8, 0), id="else the memory"
        ),
        pytest.param({"model": None, "product": "Foo 9000"}, "FOO-9000", None, id="an unknown product"),
        pytest.param({"model": None, "product": None}, "UNKNOWN", None, id="nothing at all"),
        pytest.param(
            SMALL | {"model": "T4", "computeCapability": "12.1"}, "T4", (12, 1), id="the reported capability"
        ),
    ],
)
def test_models_and_capabilities(fields: Json, name: str, capability: tuple[int, int] | None) -> None:
    (device,) = report_of({"devices": [gpu(0) | fields]}).devices
    assert device.model.name == name
    assert device.compute_capability == capability


@pytest.mark.parametrize(
    ("status", "strategy"),
    [
        pytest.param({"devices": [gpu(0), gpu(1, mig={"enabled": True})]}, "mixed", id="a partitioned GPU"),
        pytest.param(
            {"devices": [gpu(0, mig={"enabled": True})], "migStrategy": "single"}, "single", id="as it says"
        ),
        pytest.param(
            {"devices": [gpu(0, mig={"enabled": True})], "migStrategy": "none"},
            "none",
            id="a reported none, although MIG is enabled",
        ),
    ],
)
def test_the_mig_strategy_is_implied_where_it_is_absent(status: Json, strategy: str) -> None:
    assert report_of(status).mig_strategy == strategy


@pytest.mark.parametrize(
    ("spelling", "profile"),
    [
        ("1g.10gb", "1g.10gb"),
        ("1G.10GB", "1g.10gb"),
        ("1g.10gb.me", "1g.10gb+me"),
        ("1g.10gb+me", "1g.10gb+me"),
    ],
)
def test_profiles_are_read_in_every_spelling(spelling: str, profile: str) -> None:
    mig = {"enabled": True, "instances": [{"uuid": "MIG-a", "profile": spelling, "start": 0, "size": 1}]}
    (device,) = report_of({"devices": [gpu(0, mig=mig)]}).devices
    assert device.mig.instances[0].profile == profile


def test_without_placements_of_its_own_a_device_has_those_of_the_table() -> None:
    (device,) = report_of({"devices": [gpu(0, mig={"enabled": True})]}).devices
    assert device.mig.geometry is not None
    assert device.mig.geometry.grid == 8
    (unknown,) = report_of({"devices": [gpu(0, model="Foo", mig={"enabled": True})]}).devices
    assert unknown.mig.geometry is None


def test_profiles_without_starts_cannot_be_placed_and_are_left_out() -> None:
    profiles = [
        *FULL["devices"][0]["mig"]["profiles"],
        {"name": "7g.80gb", "size": 8, "starts": [], "maxInstances": 1},
    ]
    geometry = report_of(changed("devices[0].mig.profiles", profiles)).devices[0].mig.geometry
    assert geometry is not None
    assert geometry.profile("7g.80gb") is None
