"""The API server and the reader accept the same reports, except for the differences listed here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from tests.agent.gpunode_reports import profile, reader_refusal, statuses, with_summary
from tests.e2e.agents.gpunode_api import GpuNodes, install
from tests.e2e.cluster.control_plane import ControlPlane
from tests.kube_objects import Json, gpu, holder
from tests.wire.reports.gpunode_status import FULL, changed, instance, with_mig
from tests.wire.reports.test_gpunode import nulls

NODE = "agreement"
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
    ("stricter", "status"),
    [
        # Limits on texts and lists keep an object within etcd's limit; no real report comes near one.
        pytest.param("server", changed("driverVersion", "5" * 81), id="a longer text than any driver writes"),
        pytest.param(
            "server", changed(f"{DEVICE}.holders", [holder("p")] * 1001), id="more holders than replicas"
        ),
        # JSON carries whole numbers exactly up to here.
        pytest.param("server", changed("sequence", 2**53), id="a number that JSON may round"),
        # Not read, but with a fixed meaning for other readers.
        pytest.param(
            "server", changed("reportedAt", "yesterday"), id="no time, so kubectl could not show it"
        ),
        # They will be printed.
        pytest.param("server", changed(f"{DEVICE}.model", "a\x1b[2J"), id="a control character"),
        pytest.param("server", with_mig(profiles=[profile(starts=(0, 0))]), id="one start twice"),
        # No pod can have such a name, so the holder would stay unknown.
        pytest.param("server", changed(f"{DEVICE}.holders[1].name", "Q/2"), id="no pod's name"),
        # Kubernetes' validation allows no null beside an enum, and apply no field outside the schema.
        pytest.param("server", changed("migStrategy", None), id="null for a word of a closed set"),
        pytest.param("server", changed(f"{DEVICE}.fromTheFuture", 1), id="an unknown field, applied"),
        # No difference in a cluster: the API server returns 1.
        pytest.param("reader", changed(f"{DEVICE}.index", 1.0), id="a whole number written as 1.0"),
    ],
)
def test_one_is_stricter_than_the_other(nodes: GpuNodes, stricter: str, status: Json) -> None:
    refused = {"server": bool(nodes.refusal(NODE, status)), "reader": bool(reader_refusal(status))}
    assert [name for name, refuses in refused.items() if refuses] == [stricter]


# Refused by both, and accepted by both


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        pytest.param(
            {"devices": [gpu(0), gpu(0, "GPU-x")]},
            "index 0 is that of GPU-0 and of GPU-x",
            id="one index twice",
        ),
        pytest.param(changed(f"{DEVICE}.uuid", ""), "at least 1 chars", id="an empty UUID"),
        pytest.param({"devices": [gpu(i) for i in range(65)]}, "at most 64", id="65 devices"),
        pytest.param(changed(f"{DEVICE}.memory", {}), "Required value", id="no total"),
        pytest.param(
            {"devices": [gpu(0, memory={"totalMiB": 10000, "reservedMiB": 101, "usedMiB": 10000})]},
            "usedMiB 10000 + reservedMiB 101 exceed totalMiB 10000 by more than 1 %",
            id="one MiB above one per cent over the total",
        ),
        pytest.param(
            with_mig(instance("MIG-a", 0, 2), instance("MIG-b", 1)),
            "instance MIG-a with start 0 and size 2 overlaps MIG-b",
            id="instances that overlap",
        ),
        pytest.param(
            with_mig(instance("MIG-a", 7, 2)),
            "instance MIG-a with start 7 and size 2 leaves the grid of 8 units",
            id="an instance off the grid",
        ),
        pytest.param(
            with_mig(instance("MIG-a", 0, profile="3c.3g.40gb")),
            "a compute instance has fewer slices",
            id="a compute instance as large as its GPU instance",
        ),
        pytest.param(
            with_mig(instance("MIG-a", 0, 2), profiles=[profile()]),
            "instance MIG-a with start 0 and size 2 is none that profile 1g.10gb allows",
            id="an instance larger than its profile",
        ),
        pytest.param(
            with_mig(profiles=[profile(), profile("3g.40gb", 4, (0, 5))]),
            "profile 3g.40gb of size 4 has starts that leave the grid of 8 units",
            id="a profile off the grid",
        ),
        pytest.param(
            with_mig(profiles=[profile(), profile()]),
            'duplicate entries for key [name="1g.10gb"]',
            id="one profile twice",
        ),
        pytest.param(
            with_mig(profiles=[profile(size=0)]),
            "needs a size",
            id="a profile of no size",
        ),
        pytest.param(
            with_mig(instance("MIG-a", 0) | {"holder": holder("p", memoryMiB=81921)}),
            "the holder of an instance uses more than totalMiB",
            id="the holder of an instance with more than there is",
        ),
        pytest.param(
            with_mig(instance("MIG-a", 0), enabled=False),
            "a GPU whose MIG mode is off has no instances",
            id="an instance where MIG is off",
        ),
        pytest.param(
            {
                "devices": [
                    gpu(n, mig={"instances": [instance(f"MIG-{n}", 1), instance("MIG-a", 0)]})
                    for n in range(3)
                ]
            },
            "instances of two GPUs have the same UUID",
            id="one instance on three GPUs",
        ),
        pytest.param(
            {"devices": [gpu(0, holders=[holder("p"), holder("q", memoryMiB=81921)])]},
            "a holder uses 81921 MiB of a GPU of 81920",
            id="a holder with more than there is",
        ),
        pytest.param(
            {"devices": [gpu(0, "MIG-a", mig={"instances": [instance("MIG-a", 0)]})]},
            "a UUID that begins with MIG- is that of an instance",
            id="a GPU with the UUID of its instance",
        ),
        *[
            pytest.param(changed(path, value), fault, id=f"{path} {value!r}")
            for path, value, fault in [
                (f"{DEVICE}.uuid", "GPU-a\x1b[2J", "should match"),
                (f"{DEVICE}.index", 1024, "less than or equal to 1023"),
                (f"{DEVICE}.memory.reservedMiB", 0.5, "must be of type integer"),
                (f"{DEVICE}.computeCapability", "8.0\n", "should match"),
                (f"{MIG}.instances[0].size", 0, "greater than or equal to 1"),
                ("migStrategy", "double", 'supported values: "none", "single", "mixed"'),
            ]
        ],
    ],
)
def test_both_refuse_what_cannot_be(nodes: GpuNodes, status: Json, fault: str) -> None:
    assert fault in nodes.refusal(NODE, status)
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
            with_summary(memoryUsedPercent=26),
            "memoryUsedPercent",
            "is 26, but devices use 40960 of 163840 MiB",
            id="more memory used",
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
        pytest.param(with_mig(instance("MIG-a", 11), gridSize=12), id="the last unit of its own grid"),
        pytest.param(
            with_mig(profiles=[profile(size=0, starts=(), most=0)]), id="a profile that cannot be placed"
        ),
        pytest.param(with_summary(), id="a summary that agrees"),
    ],
)
def test_both_accept_the_barely_possible(nodes: GpuNodes, status: Json) -> None:
    assert (nodes.refusal(NODE, status), reader_refusal(status)) == ("", "")


# The law


def test_reader_and_api_server_agree_on_what_agents_write(nodes: GpuNodes) -> None:
    verdicts: Counter[bool] = Counter()

    @settings(max_examples=100)
    @given(statuses())
    def agree(status: Json) -> None:
        by_reader, by_server = reader_refusal(status), nodes.refusal(NODE, status)
        assert bool(by_reader) == bool(by_server), (by_reader, by_server)
        verdicts[bool(by_reader)] += 1

    agree()
    # The law is not vacuous: many reports of either kind were drawn.
    assert min(verdicts.values()) > 20
