"""Impossible reports are refused when written, by field, as in the reader."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agent.gpunode_reports import instance, profile, reader_refusal, with_mig, with_summary, without
from tests.e2e.agents.gpunode_api import GpuNodes, install
from tests.e2e.cluster.control_plane import ControlPlane
from tests.kube_objects import Json, gpu, holder
from tests.wire.reports.gpunode_status import FULL, changed
from tests.wire.reports.test_gpunode import nulls

NODE = "refusals"
DEVICE = "devices[0]"
MIG = "devices[0].mig"


@pytest.fixture(scope="module")
def nodes(control_plane: ControlPlane) -> Iterator[GpuNodes]:
    """With one GPUNode that is never written: everything here is a dry run."""
    install(control_plane)
    nodes = GpuNodes(control_plane)
    nodes.create(NODE)
    yield nodes
    nodes.close()


@pytest.mark.parametrize(
    ("status", "field", "fault"),
    [
        pytest.param(
            {"devices": [gpu(0), gpu(0, "GPU-x")]},
            "status.devices: ",
            "index 0 is that of GPU-0 and of GPU-x",
            id="one index twice",
        ),
        pytest.param(
            {"devices": [gpu(0), gpu(1, "GPU-0")]},
            ".status.devices: ",
            'duplicate entries for key [uuid="GPU-0"]',
            id="one UUID twice",
        ),
        pytest.param(
            changed(f"{DEVICE}.uuid", ""), "devices[0].uuid", "at least 1 chars", id="an empty UUID"
        ),
        pytest.param(
            {"devices": [gpu(i) for i in range(65)]}, "status.devices", "at most 64", id="65 devices"
        ),
        pytest.param(without("uuid"), ".status.devices", 'omits all key fields ["uuid"]', id="no UUID"),
        pytest.param(without("index"), "devices[0].index", "Required value", id="no index"),
        pytest.param(without("memory"), "devices[0].memory", "Required value", id="no memory"),
        pytest.param(changed(f"{DEVICE}.memory", {}), "memory.totalMiB", "Required value", id="no total"),
        pytest.param(
            {"devices": [gpu(0, memory={"totalMiB": 10000, "reservedMiB": 101, "usedMiB": 10000})]},
            "status.devices[0].memory.usedMiB: ",
            "usedMiB 10000 + reservedMiB 101 exceed totalMiB 10000 by more than 1 %",
            id="one MiB above one per cent over the total",
        ),
        pytest.param(
            {"devices": [gpu(0, memory={"totalMiB": 0, "usedMiB": 1})]},
            "status.devices[0].memory.usedMiB: ",
            "usedMiB 1 + reservedMiB 0 exceed totalMiB 0",
            id="use of no memory",
        ),
        pytest.param(
            with_mig(instance("MIG-a", 0, 2), instance("MIG-b", 1)),
            "status.devices[0].mig.instances: ",
            "instance MIG-a with start 0 and size 2 overlaps MIG-b",
            id="instances that overlap",
        ),
        pytest.param(
            with_mig(instance("MIG-a", 7, 2)),
            "status.devices[0].mig.instances: ",
            "instance MIG-a with start 7 and size 2 leaves the grid of 8 units",
            id="an instance off the grid",
        ),
        pytest.param(
            {"devices": [gpu(0, model="Foo", mig={"instances": [instance("MIG-a", 16)]})]},
            "status.devices[0].mig.instances: ",
            "instance MIG-a with start 16 and size 1 leaves the grid of 16 units",
            id="an instance off the largest grid",
        ),
        pytest.param(
            with_mig(instance("MIG-a", 0), instance("MIG-a", 1)),
            "mig.instances: ",
            'duplicate entries for key [uuid="MIG-a"]',
            id="one instance twice",
        ),
        pytest.param(
            with_mig(instance("MIG-a", 0, profile="huge")),
            "mig.instances[0].profile: ",
            '"huge"',
            id="no profile name",
        ),
        pytest.param(
            with_mig(instance("MIG-a", 0, profile="3c.3g.40gb")),
            "mig.instances[0].profile: ",
            "a compute instance has fewer slices",
            id="a compute instance as large as its GPU instance",
        ),
        pytest.param(
            with_mig(instance("MIG-a", 0, 2), profiles=[profile()]),
            "mig.instances: ",
            "instance MIG-a with start 0 and size 2 is none that profile 1g.10gb allows",
            id="an instance larger than its profile",
        ),
        pytest.param(
            with_mig(instance("MIG-a", 3), profiles=[profile()]),
            "mig.instances: ",
            "instance MIG-a with start 3 and size 1 is none that profile 1g.10gb allows",
            id="an instance where its profile cannot lie",
        ),
        pytest.param(
            with_mig(profiles=[profile(), profile("3g.40gb", 4, (0, 5))]),
            "mig.profiles: ",
            "profile 3g.40gb of size 4 has starts that leave the grid of 8 units",
            id="a profile off the grid",
        ),
        pytest.param(
            with_mig(profiles=[profile(), profile()]),
            "mig.profiles: ",
            'duplicate entries for key [name="1g.10gb"]',
            id="one profile twice",
        ),
        pytest.param(
            with_mig(profiles=[profile(size=0)]),
            "mig.profiles[0]: ",
            "needs a size",
            id="a profile of no size",
        ),
        pytest.param(
            with_mig(profiles=[profile(most=0)]),
            "mig.profiles[0]: ",
            "maxInstances of at least 1",
            id="of no use",
        ),
        pytest.param(
            {"devices": [gpu(0, holders=[holder("p"), holder("q", memoryMiB=81921)])]},
            "status.devices[0].holders: ",
            "a holder uses 81921 MiB of a GPU of 81920",
            id="a holder with more than there is",
        ),
        pytest.param(
            with_mig(instance("MIG-a", 0) | {"holder": holder("p", memoryMiB=81921)}),
            "status.devices[0].mig.instances: ",
            "the holder of an instance uses more than totalMiB",
            id="the holder of an instance with more than there is",
        ),
        pytest.param(
            with_mig(instance("MIG-a", 0), enabled=False),
            "status.devices[0].mig.instances: ",
            "a GPU whose MIG mode is off has no instances",
            id="an instance where MIG is off",
        ),
        pytest.param(
            with_mig(instance("GPU-0", 0)),
            "mig.instances[0].uuid",
            "should match",
            id="an instance with the UUID of its GPU",
        ),
        pytest.param(
            {"devices": [gpu(0, "MIG-a", mig={"instances": [instance("MIG-a", 0)]})]},
            "status.devices[0].uuid: ",
            "a UUID that begins with MIG- is that of an instance",
            id="a GPU with the UUID of its instance",
        ),
        pytest.param(
            {
                "devices": [
                    gpu(n, mig={"instances": [instance(f"MIG-{n}", 1), instance("MIG-a", 0)]})
                    for n in range(3)
                ]
            },
            "status.devices: ",
            "instances of two GPUs have the same UUID",
            id="one instance on three GPUs",
        ),
        *[
            pytest.param(changed(path, value), f"{path}", fault, id=f"{path} {value!r}")
            for path, value, fault in [
                (f"{DEVICE}.uuid", "GPU-a,GPU-b", "should match"),
                (f"{DEVICE}.uuid", "GPU-a\x1b[2J", "should match"),
                (f"{DEVICE}.index", -1, "greater than or equal to 0"),
                (f"{DEVICE}.index", 1024, "less than or equal to 1023"),
                (f"{DEVICE}.memory.totalMiB", 2**24 + 1, "less than or equal to 16777216"),
                (f"{DEVICE}.memory.usedMiB", -1, "greater than or equal to 0"),
                (f"{DEVICE}.memory.reservedMiB", 0.5, "must be of type integer"),
                (f"{DEVICE}.health.state", "Broken", 'supported values: "Healthy", "Unhealthy"'),
                (f"{DEVICE}.computeCapability", "8", "should match"),
                (f"{DEVICE}.computeCapability", "8.0\n", "should match"),
                (f"{DEVICE}.utilizationPercent", 101, "less than or equal to 100"),
                (f"{DEVICE}.temperatureCelsius", 251, "less than or equal to 250"),
                (f"{MIG}.gridSize", 17, "less than or equal to 16"),
                (f"{MIG}.instances[0].size", 0, "greater than or equal to 1"),
                (f"{MIG}.instances[0].uuid", "", "at least 1 chars"),
                (f"{DEVICE}.holders[0].memoryMiB", -1, "greater than or equal to 0"),
                ("sequence", -1, "greater than or equal to 0"),
                ("cudaVersion", "twelve", "should match"),
                ("migStrategy", "double", 'supported values: "none", "single", "mixed"'),
                ("sharing.replicas", 0, "greater than or equal to 1"),
            ]
        ],
    ],
)
def test_both_refuse_what_cannot_be_and_name_it(
    nodes: GpuNodes, status: Json, field: str, fault: str
) -> None:
    refusal = nodes.refusal(NODE, status)
    assert field in refusal
    assert fault in refusal
    assert reader_refusal(status)


@pytest.mark.parametrize(
    ("status", "field", "fault"),
    [
        pytest.param(with_summary(gpus=1), "gpus", "is 1, but the number of devices is 2", id="fewer GPUs"),
        pytest.param(
            with_summary(healthy=2),
            "healthy",
            "is 2, but the number of devices that are not Unhealthy is 1",
            id="healthier",
        ),
        pytest.param(
            with_summary(model="A100-80GB"), "model", "does not list the models", id="a model left out"
        ),
        pytest.param(
            with_summary(model="A100-80GB, L4, T4"), "model", "does not list", id="a model too many"
        ),
        pytest.param(
            {"summary": {"gpus": 0, "healthy": 0, "model": "T4"}},
            "model",
            "does not list",
            id="a model of no device",
        ),
        pytest.param(
            with_summary(memoryUsedPercent=26),
            "memoryUsedPercent",
            "is 26, but devices use 40960 of 163840 MiB",
            id="more memory used",
        ),
        pytest.param(
            {"summary": {"gpus": 0, "healthy": 0, "memoryUsedPercent": 1}},
            "memoryUsedPercent",
            "is 1, but devices use 0 of 0 MiB",
            id="use of no memory",
        ),
    ],
)
def test_a_summary_cannot_lie(nodes: GpuNodes, status: Json, field: str, fault: str) -> None:
    refusal = nodes.refusal(NODE, status)
    assert f"status.summary.{field}: " in refusal
    assert f"summary.{field} {fault}" in refusal


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(None, id="no status"),
        pytest.param({}, id="an empty status"),
        pytest.param({"devices": None}, id="null devices"),
        pytest.param({"devices": [gpu(i) for i in range(64)]}, id="64 devices"),
        pytest.param(
            nulls(FULL)
            | {"devices": [gpu(0, health=None, mig=None, holders=None, links=None, product=None)]}
            | {"migStrategy": "none"},
            id="null for absent values",
        ),
        pytest.param(
            {"devices": [gpu(0, memory={"totalMiB": 10000, "reservedMiB": 100, "usedMiB": 10000})]},
            id="one per cent over the total",
        ),
        pytest.param(with_mig(instance("MIG-a", 7), instance("MIG-b", 5, 2)), id="instances side by side"),
        pytest.param(with_mig(instance("MIG-a", 11), gridSize=12), id="the last unit of its own grid"),
        pytest.param(with_mig(instance("MIG-a", 0, profile="1c.2g.20gb")), id="a compute instance"),
        pytest.param(
            with_mig(profiles=[profile(size=0, starts=(), most=0)]), id="a profile that cannot be placed"
        ),
        pytest.param({"devices": [gpu(0, holders=[{}])]}, id="an unknown holder"),
        pytest.param(with_summary(), id="a summary that agrees"),
        pytest.param({"devices": [], "summary": {"gpus": 0, "healthy": 0}}, id="a summary of no devices"),
    ],
)
def test_both_accept_the_barely_possible(nodes: GpuNodes, status: Json) -> None:
    assert (nodes.refusal(NODE, status), reader_refusal(status)) == ("", "")
