"""GPUNode reports: every contradiction that refuses one whole, by field, and accepted border cases."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.core.errors import ImpossibleReportError, InventoryError
from scheduler_ext.wire.objects import read_objects
from scheduler_ext.wire.readings import readings_of
from tests.kube_objects import Json, gpu, gpu_node, inventory
from tests.wire.reports.gpunode_status import changed, read, report_of


def instance(uuid: str = "MIG-a", profile: str = "1g.10gb", start: int = 0, size: int = 1) -> Json:
    return {"uuid": uuid, "profile": profile, "start": start, "size": size}


def with_instances(*instances: Json, **mig: Any) -> Json:
    return {"devices": [gpu(0, mig={"enabled": True, "instances": instances} | mig)]}


def with_memory(**memory: Any) -> Json:
    return {"devices": [gpu(0, memory=memory)]}


@pytest.mark.parametrize(
    ("status", "field", "problem"),
    [
        pytest.param(
            {"devices": [gpu(0), gpu(1, "GPU-0")]}, "devices[1].uuid", "devices[0].uuid", id="one UUID twice"
        ),
        pytest.param(
            {"devices": [gpu(0), gpu(0, "GPU-1")]},
            "devices[1].index",
            "devices[0].index",
            id="one index twice",
        ),
        pytest.param({"devices": [gpu(0) | {"uuid": ""}]}, "devices[0].uuid", "empty", id="an empty UUID"),
        *(
            pytest.param({"devices": [gpu(0) | {"uuid": uuid}]}, "devices[0].uuid", "is no UUID", id=name)
            for name, uuid in (
                ("two UUIDs for one", "GPU-a,GPU-b"),
                ("a UUID that clears the screen", "GPU-a\x1b[2J"),
                ("a UUID of 97 characters", "GPU-" + 93 * "a"),
            )
        ),
        pytest.param({"devices": [gpu(i) for i in range(65)]}, "devices", "65", id="65 devices"),
        pytest.param(
            with_memory(totalMiB=10000, reservedMiB=101, usedMiB=10000),
            "devices[0].memory.usedMiB",
            "10000 + reserved 101",
            id="one MiB above one per cent over the total",
        ),
        pytest.param(
            with_instances(instance(size=2), instance("MIG-b", start=1)),
            "devices[0].mig.instances[1]",
            "overlaps devices[0].mig.instances[0] at unit 1",
            id="instances that overlap",
        ),
        pytest.param(
            with_instances(instance(start=7, size=2), gridSize=8),
            "devices[0].mig.instances[0]",
            "grid of 8",
            id="off the grid",
        ),
        pytest.param(
            {"devices": [gpu(0, model="Foo", mig={"instances": [instance(start=16)]})]},
            "devices[0].mig.instances[0]",
            "grid of 16",
            id="off the largest grid, where the device's grid is unknown",
        ),
        pytest.param(
            with_instances(instance(), instance(start=1)),
            "devices[0].mig.instances[1].uuid",
            "already",
            id="one instance twice",
        ),
        pytest.param(
            with_instances(instance(profile="huge")),
            "devices[0].mig.instances[0].profile",
            "'huge' is not a profile name",
            id="no profile name",
        ),
        pytest.param(
            changed("devices[0].mig.profiles[1].size", 9),
            "devices[0].mig",
            "profiles[1].size: 9",
            id="a size off the grid",
        ),
        pytest.param(
            changed("devices[0].mig.profiles[1].starts", [5]),
            "devices[0].mig",
            "profiles[1].starts: 5",
            id="a start",
        ),
        pytest.param(
            changed("devices[0].mig.profiles[1].name", "1g.10gb"),
            "devices[0].mig",
            "listed 2 times",
            id="a profile twice",
        ),
        pytest.param(
            changed("devices[0].mig.gridSize", 3),
            "devices[0].mig",
            "profiles[0].starts: 7",
            id="a grid too small for the profiles",
        ),
    ],
)
def test_impossible_reports_are_refused_whole_by_field(status: Json, field: str, problem: str) -> None:
    with pytest.raises(ImpossibleReportError) as refusal:
        read(status)
    message = str(refusal.value)
    assert message.startswith(f"GPUNode n: status.{field}: ")
    assert problem in message
    assert message.endswith("the report is refused")


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(
            with_memory(totalMiB=10000, reservedMiB=100, usedMiB=10000), id="one per cent over the total"
        ),
        pytest.param({"devices": [gpu(i) for i in range(64)]}, id="64 devices"),
        pytest.param(with_instances(instance(start=7)), id="the last unit of the grid"),
    ],
)
def test_limits_are_valid(status: Json) -> None:
    assert report_of(status).devices


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("devices", {}),
        ("devices[0]", "GPU-0"),
        ("devices[0].uuid", None),
        ("devices[0].index", 1.5),
        ("devices[0].memory.totalMiB", "81920"),
        ("devices[0].memory.totalMiB", 10**12),
        ("devices[0].memory.usedMiB", -1),
        ("devices[0].health.state", "Broken"),
        ("devices[0].computeCapability", "8.0\n"),
        ("devices[0].mig.instances[0].size", 17),
        ("cudaVersion", 12.8),
        ("cudaVersion", "\u0661\u0662"),
    ],
)
def test_wrong_types_and_ranges_are_refused_by_field(path: str, value: Any) -> None:
    with pytest.raises(InventoryError) as refusal:
        read(changed(path, value))
    named = f"GPUNode n: status.{path}"
    # A field that is missing is named in the problem, its parent in the path.
    assert str(refusal.value).startswith((f"{named}: ", f"{named}[...]: ", f"{named}[0]: "))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({"bootID": "a", "sequence": 5}, {"bootID": "a", "sequence": 5}, id="the same again"),
        pytest.param({"bootID": "a", "sequence": 5}, {"bootID": "a", "sequence": 6}, id="the next one"),
        pytest.param(
            {"bootID": "a", "sequence": 5}, {"bootID": "b", "sequence": 1}, id="back after a reboot"
        ),
        pytest.param({"bootID": "a", "sequence": 5}, {"bootID": "a"}, id="no number any more"),
    ],
)
def test_sequences_that_may_follow(before: Json, after: Json) -> None:
    last = read({"devices": [gpu(0)]} | before)
    assert read({"devices": [gpu(0)]} | after, last).report is not None


@pytest.mark.parametrize("boot", [{"bootID": "a"}, {}], ids=["within a boot", "where no boot is named"])
def test_a_sequence_that_goes_back_is_refused(boot: Json) -> None:
    last = read({"devices": [gpu(0)], "sequence": 5} | boot)
    with pytest.raises(ImpossibleReportError, match=r"status\.sequence: went back from 5 to 4"):
        read({"devices": [gpu(0)], "sequence": 4} | boot, last)


@pytest.mark.parametrize(
    ("word", "read"),
    [
        pytest.param("OfTheNextRelease", True, id="a reason that only a newer agent knows is kept"),
        pytest.param("power cap", False, id="other texts are none"),
        pytest.param("PowerCap\n", False, id="nor is a word with another line"),
    ],
)
def test_throttle_reasons(word: str, read: bool) -> None:
    text = inventory(gpu_node("n", [gpu(0, throttleReasons=[word])]))
    if not read:
        with pytest.raises(InventoryError, match="throttleReasons"):
            read_objects(text)
        return
    (did,) = readings_of(read_objects(text).gpu_nodes)["n"]
    assert did.throttle_reasons == (word,)
