"""GPUNode reports: every contradiction that refuses one whole, by field, and accepted border cases."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.core.errors import ImpossibleReportError, InventoryError
from scheduler_ext.wire.objects import read_objects
from scheduler_ext.wire.readings import readings_of
from tests.kube_objects import Json, gpu, gpu_node, holder, inventory
from tests.wire.reports.gpunode_status import FULL, changed, instance, read, report_of, with_mig

ONE_G = {"name": "1g.10gb", "size": 1, "starts": [0, 1, 2, 3, 4, 5, 6], "maxInstances": 7}


def with_memory(**memory: Any) -> Json:
    return {"devices": [gpu(0, memory={"totalMiB": 10000} | memory)]}


def two_gpus(first: Json, second: Json) -> Json:
    """Two GPUs in MIG mode with an instance each."""
    instances = ([first], [second])
    return {"devices": [gpu(i, mig={"enabled": True, "instances": each}) for i, each in enumerate(instances)]}


@pytest.mark.parametrize(
    ("status", "field", "problem"),
    [
        pytest.param(
            {"devices": [gpu(0), gpu(1, "GPU-0")]}, "[1].uuid", "that of devices[0].uuid", id="one UUID twice"
        ),
        pytest.param(
            {"devices": [gpu(0), gpu(0, "GPU-1")]}, "[1].index", "devices[0].index", id="one index twice"
        ),
        pytest.param({"devices": [gpu(0) | {"uuid": ""}]}, "[0].uuid", "empty", id="an empty UUID"),
        pytest.param({"devices": [gpu(0, "GPU-a,GPU-b")]}, "[0].uuid", "is no UUID", id="two UUIDs for one"),
        pytest.param(
            {"devices": [gpu(0, "GPU-a\x1b[2J")]}, "[0].uuid", "is no UUID", id="a control sequence"
        ),
        pytest.param({"devices": [gpu(0, "G" * 97)]}, "[0].uuid", "is no UUID", id="a UUID of 97 characters"),
        pytest.param({"devices": [gpu(i) for i in range(65)]}, "", "65", id="65 devices"),
        pytest.param(
            with_memory(reservedMiB=101, usedMiB=10000),
            "[0].memory.usedMiB",
            "10000 + reserved 101",
            id="one MiB above one per cent over the total",
        ),
        pytest.param(
            with_memory(usedMiB=5, unaccountedMiB=6),
            "[0].memory.unaccountedMiB",
            "6 of 5 MiB that are used",
            id="more unaccounted than used",
        ),
        pytest.param(
            {"devices": [gpu(0, holders=[holder("p", memoryMiB=81921)])]},
            "[0].holders[0].memoryMiB",
            "81921 MiB of a device of 81920",
            id="a pod with more than there is",
        ),
        pytest.param(
            with_mig(instance(holder=holder("p", memoryMiB=81921))),
            "[0].mig.instances[0].holder.memoryMiB",
            "81921 MiB of",
            id="a pod with more than there is, on an instance",
        ),
        pytest.param(
            with_mig(instance("GPU-0")),
            "[0].mig.instances[0].uuid",
            "'GPU-0' is that of devices[0].uuid",
            id="an instance that is its GPU",
        ),
        pytest.param(
            two_gpus(instance(), instance()),
            "[1].mig.instances[0].uuid",
            "'MIG-a' is that of devices[0].mig.instances[0].uuid",
            id="an instance on two GPUs",
        ),
        pytest.param(
            with_mig(instance(), enabled=False),
            "[0].mig.instances",
            "a GPU whose MIG mode is off has no instances",
            id="instances without MIG",
        ),
        pytest.param(
            with_mig(instance(size=2), instance("MIG-b", start=1)),
            "[0].mig.instances[1]",
            "overlaps devices[0].mig.instances[0] at unit 1",
            id="instances that overlap",
        ),
        pytest.param(
            with_mig(instance(start=7, size=2)), "[0].mig.instances[0]", "grid of 8", id="off the grid"
        ),
        pytest.param(
            with_mig(instance(start=16), gridSize=None),
            "[0].mig.instances[0]",
            "grid of 16",
            id="off the largest grid, where the device's grid is unknown",
        ),
        pytest.param(
            with_mig(instance(size=None)),
            "[0].mig.instances[0].start",
            "a start without a size; give both or neither",
            id="half a place",
        ),
        pytest.param(
            with_mig(instance(profile="huge")),
            "[0].mig.instances[0].profile",
            "'huge' is not a profile name",
            id="no profile name",
        ),
        pytest.param(
            with_mig(instance(size=2), profiles=[ONE_G]),
            "[0].mig.instances[0]",
            "its size or start does not match its profile in the same report",
            id="an instance that its own device could not have",
        ),
        pytest.param(
            with_mig(gridSize=3, profiles=[ONE_G]),
            "[0].mig",
            "profiles[0].starts: 7 entries on a grid of 3",
            id="a grid too small for the profiles",
        ),
    ],
)
def test_impossible_reports_are_refused_whole_by_field(status: Json, field: str, problem: str) -> None:
    with pytest.raises(ImpossibleReportError) as refusal:
        read(status)
    message = str(refusal.value)
    assert message.startswith(f"GPUNode n: status.devices{field}: ")
    assert problem in message
    assert message.endswith("the report is refused")


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(with_memory(reservedMiB=100, usedMiB=10000), id="one per cent over the total"),
        pytest.param(with_memory(usedMiB=5, unaccountedMiB=5), id="a use that no pod explains"),
        pytest.param(with_memory(totalMiB=0), id="memory that the agent may not see"),
        pytest.param(
            {"devices": [gpu(0, holders=[holder("p", memoryMiB=81920)])]}, id="a pod with all of it"
        ),
        pytest.param({"devices": [gpu(i) for i in range(64)]}, id="64 devices"),
        pytest.param(with_mig(instance(start=7)), id="the last unit of the grid"),
        pytest.param(
            with_mig(*(instance(f"MIG-{i}", None, 4, "1c.3g.40gb") for i in range(3))),
            id="parts of one instance, which share its units",
        ),
        pytest.param(
            {"devices": [gpu(0, model="T4", mig=FULL["devices"][0]["mig"])]},
            id="a product that has placements of its own",
        ),
    ],
)
def test_limits_are_valid(status: Json) -> None:
    assert report_of(status).devices


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(with_mig(instance(start=10), gridSize=12), id="another grid than the table's"),
        pytest.param(with_mig(instance(start=8), gridSize=None), id="a start off the table's grid"),
        pytest.param(with_mig(instance(start=None, size=9), gridSize=None), id="a size off the table's grid"),
        pytest.param(with_mig(instance(profile="7g.80gb")), id="a size that is not the profile's"),
        pytest.param(
            with_mig(instance(start=1, size=2, profile="2g.20gb")),
            id="a start that the profile does not have",
        ),
        pytest.param(
            with_mig(instance(size=2), gridSize=None, profiles=[ONE_G]), id="profiles of its own, but no grid"
        ),
        pytest.param(
            with_mig(instance(size=2), profiles=[ONE_G | {"starts": []}]),
            id="profiles of its own, but no starts",
        ),
    ],
)
def test_a_table_that_does_not_fit_the_device_is_not_used(status: Json) -> None:
    """The report may be of a GPU that the package's table is not about."""
    (device,) = report_of(status).devices
    assert (len(device.mig.instances), device.mig.geometry) == (1, None)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("devices", {}),
        ("devices[0]", "GPU-0"),
        ("devices[0].uuid", None),
        ("devices[0].memory.totalMiB", "81920"),
        ("devices[0].computeCapability", "8.0\n"),
        ("cudaVersion", 12.8),
    ],
)
def test_wrong_types_and_ranges_are_refused_by_field(path: str, value: Any) -> None:
    """Their bounds are those of the CRD."""
    with pytest.raises(InventoryError) as refusal:
        read(changed(path, value))
    named = f"GPUNode n: status.{path}"
    # A field that is missing is named in the problem, its parent in the path.
    assert str(refusal.value).startswith((f"{named}: ", f"{named}[...]: ", f"{named}[0]: "))


@pytest.mark.parametrize(
    "after",
    [
        pytest.param({"bootID": "a", "sequence": 5}, id="the same again"),
        pytest.param({"bootID": "a", "sequence": 6}, id="the next one"),
        pytest.param({"bootID": "b", "sequence": 1}, id="back after a reboot"),
        pytest.param({"bootID": "a"}, id="no number any more"),
    ],
)
def test_sequences_that_may_follow(after: Json) -> None:
    last = read({"devices": [], "bootID": "a", "sequence": 5})
    assert read({"devices": []} | after, last).report is not None


@pytest.mark.parametrize("boot", [{"bootID": "a"}, {}], ids=["within a boot", "where no boot is named"])
def test_a_sequence_that_goes_back_is_refused(boot: Json) -> None:
    last = read({"sequence": 5} | boot)
    with pytest.raises(ImpossibleReportError, match=r"status\.sequence: went back from 5 to 4"):
        read({"sequence": 4} | boot, last)


def test_a_reason_to_throttle_that_only_a_newer_agent_knows_is_kept() -> None:
    text = inventory(gpu_node("n", [gpu(0, throttleReasons=["OfTheNextRelease"])]))
    (did,) = readings_of(read_objects(text).gpu_nodes)["n"]
    assert did.throttle_reasons == ("OfTheNextRelease",)


@pytest.mark.parametrize("word", ["power cap", "PowerCap\n"])
def test_other_reasons_to_throttle_are_refused(word: str) -> None:
    with pytest.raises(InventoryError, match="throttleReasons"):
        read({"devices": [gpu(0, throttleReasons=[word])]})
