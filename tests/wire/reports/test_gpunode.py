"""GPUNode reports: the fields that are read."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from scheduler_ext.core.gpu.gpu import Holder, Memory, MigInstance
from scheduler_ext.wire.gpunode import read_gpu_node
from scheduler_ext.wire.report import CORDONED_ANNOTATION, read_report
from tests.kube_objects import Json, gpu, gpu_node
from tests.wire.reports.gpunode_status import FULL, changed, instance, read, report_of, with_mig


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


REQUIRED = {"devices", "uuid", "index", "memory", "totalMiB"}


def nulls(value: Any) -> Any:
    """The value with every optional field null."""
    if isinstance(value, list):
        return [nulls(item) for item in value]
    if isinstance(value, dict):
        return {key: nulls(item) if key in REQUIRED else None for key, item in value.items()}
    return value


def test_null_is_absent_and_absent_fields_have_the_plain_meaning() -> None:
    report = report_of({"devices": [{"uuid": "GPU-0", "index": 0, "memory": {"totalMiB": 81920}}]})
    assert report_of(nulls(FULL)) == report
    assert (report.mig_strategy, report.sharing_strategy, report.replicas) == ("none", "none", 1)
    (device,) = report.devices
    assert device.healthy
    assert (device.vendor, device.memory, device.holders) == ("nvidia", Memory(81920), ())


def test_unknown_fields_are_tolerated_on_every_level() -> None:
    status = copy.deepcopy(FULL)
    device = status["devices"][0]
    mig = device["mig"]
    for part in (status, device, device["memory"], mig, mig["profiles"][0], device["holders"][0]):
        part["fromTheFuture"] = {"any": ["thing", 1, None]}
    assert report_of(status) == report_of(FULL)


@pytest.mark.parametrize("status", [{}, {"devices": None}])
def test_an_unwritten_gpunode_is_no_report(status: Json) -> None:
    node = read(status)
    assert (node.report, node.freshness) == (None, "Missing")


def test_a_report_of_no_devices_is_a_report() -> None:
    assert report_of({"sequence": 1}).devices == ()
    assert report_of({"devices": []}).devices == ()


def test_a_gpu_for_displays_is_no_gpu() -> None:
    devices = [gpu(0), gpu(1, model="NVIDIA DGX Display")]
    assert [device.uuid for device in report_of({"devices": devices}).devices] == ["GPU-0"]


SMALL = {"memory": {"totalMiB": 15360}}


@pytest.mark.parametrize(
    ("fields", "name", "capability"),
    [
        pytest.param(SMALL | {"model": "T4", "product": "NVIDIA L4"}, "T4", (7, 5), id="the model field"),
        pytest.param(SMALL | {"model": None, "product": "NVIDIA L4"}, "L4", (8, 9), id="else the product"),
        pytest.param(
            {"model": None, "product": "NVIDIA A100-PCIE"}, "A100-80GB", (8, 0), id="else the memory"
        ),
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


def test_without_placements_of_its_own_a_device_has_those_of_the_table() -> None:
    (device,) = report_of({"devices": [gpu(0, mig={"enabled": True})]}).devices
    assert device.mig.geometry is not None
    assert device.mig.geometry.grid == 8
    (unknown,) = report_of({"devices": [gpu(0, model="Foo", mig={"enabled": True})]}).devices
    assert unknown.mig.geometry is None


def test_profiles_without_starts_cannot_be_placed_and_are_left_out() -> None:
    placed = FULL["devices"][0]["mig"]["profiles"]
    whole = {"name": "7g.80gb", "size": 8, "starts": [], "maxInstances": 1}
    geometry = report_of(changed("devices[0].mig.profiles", [*placed, whole])).devices[0].mig.geometry
    assert geometry is not None
    assert [profile.name for profile in geometry.profiles] == ["1g.10gb", "3g.40gb"]


def instances(*profiles: str, model: str = "A100-80GB") -> tuple[MigInstance, ...]:
    """Instances without places, which only root may read."""
    found = [instance(f"MIG-{i}", None, None, profile) for i, profile in enumerate(profiles)]
    return report_of({"devices": [gpu(0, model=model, mig={"instances": found})]}).devices[0].mig.instances


def test_without_a_place_the_profile_says_the_size() -> None:
    found = instances("3G.40GB", "1g.10gb.me")
    assert found == (MigInstance("MIG-0", "3g.40gb", None, 4), MigInstance("MIG-1", "1g.10gb+me", None, 1))
    assert [each.mask for each in found] == [0, 0]


def test_instances_of_an_unknown_model_count_as_one_each() -> None:
    assert [each.size for each in instances("1g.5gb", "3g.20gb", model="Foo")] == [1, 1]


def test_a_place_and_none_do_not_overlap() -> None:
    (device,) = report_of(
        with_mig(instance("MIG-a", 0, 4, "3g.40gb"), instance("MIG-b", None, None, "3g.40gb"))
    ).devices
    assert [each.start for each in device.mig.instances] == [0, None]


def test_instances_of_a_gpu_that_does_not_say_are_mig() -> None:
    assert report_of(with_mig(instance(), enabled=None)).devices[0].mig.enabled


@pytest.mark.parametrize(
    ("annotations", "uuids"),
    [
        pytest.param(None, [], id="no annotations"),
        pytest.param({CORDONED_ANNOTATION: "GPU-1", "other": "GPU-0"}, ["GPU-1"], id="one"),
        pytest.param({CORDONED_ANNOTATION: " GPU-0 ,\n GPU-1,"}, ["GPU-0", "GPU-1"], id="spaces around them"),
        pytest.param({CORDONED_ANNOTATION: "GPU-9, nonsense"}, [], id="none of this node"),
    ],
)
def test_an_operator_cordons_gpus_by_an_annotation(annotations: Json | None, uuids: list[str]) -> None:
    found = gpu_node("n", [gpu(i) for i in range(3)])
    found["metadata"]["annotations"] = annotations
    report = read_report(read_gpu_node(json.dumps(found).encode()))
    assert report is not None
    assert [device.uuid for device in report.devices if device.cordoned] == uuids
