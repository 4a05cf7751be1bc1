"""The API server and the reader accept the same reports, except for the differences listed here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from tests.agent.gpunode_reports import profile, reader_refusal, statuses, with_summary
from tests.e2e.agents.gpunode_api import GpuNodes
from tests.e2e.cluster.control_plane import ControlPlane
from tests.kube_objects import Json, gpu, holder
from tests.wire.reports.gpunode_status import changed, instance, with_mig

NODE = "agreement"
DEVICE = "devices[0]"


@pytest.fixture(scope="module")
def nodes(control_plane: ControlPlane) -> Iterator[GpuNodes]:
    """With one GPUNode that is never written: everything here is a dry run."""
    nodes = GpuNodes(control_plane.api)
    nodes.create(NODE)
    yield nodes
    nodes.close()


@pytest.mark.parametrize(
    ("stricter", "status"),
    [
        # Limits on texts, lists and numbers: no real report comes near one.
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


OVER = {"totalMiB": 10000, "reservedMiB": 101, "usedMiB": 10000}
TOO_MUCH = holder("q", memoryMiB=81921)
OF_ITSELF = gpu(0, "MIG-a", mig={"instances": [instance("MIG-a", 0)]})
# A status for each rule of the CRD, by what the API server says about it.
FAULTS: dict[str, Json] = {
    "index 0 is that of GPU-0 and of GPU-x": {"devices": [gpu(0), gpu(0, "GPU-x")]},
    "usedMiB 10000 + reservedMiB 101 exceed totalMiB 10000 by more than 1 %": {
        "devices": [gpu(0, memory=OVER)]
    },
    "instance MIG-a with start 0 and size 2 overlaps MIG-b": with_mig(
        instance("MIG-a", 0, 2), instance("MIG-b", 1)
    ),
    "instance MIG-a with start 7 and size 2 leaves the grid of 8 units": with_mig(instance("MIG-a", 7, 2)),
    "a compute instance has fewer slices": with_mig(instance("MIG-a", 0, profile="3c.3g.40gb")),
    "instance MIG-a with start 0 and size 2 is none that profile 1g.10gb allows": with_mig(
        instance("MIG-a", 0, 2), profiles=[profile()]
    ),
    "profile 3g.40gb of size 4 has starts that leave the grid of 8 units": with_mig(
        profiles=[profile(), profile("3g.40gb", 4, (0, 5))]
    ),
    'duplicate entries for key [name="1g.10gb"]': with_mig(profiles=[profile(), profile()]),
    "needs a size": with_mig(profiles=[profile(size=0)]),
    "the holder of an instance uses more than totalMiB": with_mig(
        instance("MIG-a", 0) | {"holder": TOO_MUCH}
    ),
    "a GPU whose MIG mode is off has no instances": with_mig(instance("MIG-a", 0), enabled=False),
    "instances of two GPUs have the same UUID": {
        "devices": [
            gpu(n, mig={"instances": [instance(f"MIG-{n}", 1), instance("MIG-a", 0)]}) for n in range(3)
        ]
    },
    "a holder uses 81921 MiB of a GPU of 81920": {"devices": [gpu(0, holders=[holder("p"), TOO_MUCH])]},
    "a UUID that begins with MIG- is that of an instance": {"devices": [OF_ITSELF]},
    "in body should match": changed(f"{DEVICE}.computeCapability", "8.0\n"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_both_refuse_what_cannot_be(nodes: GpuNodes, fault: str) -> None:
    assert fault in nodes.refusal(NODE, FAULTS[fault])
    assert reader_refusal(FAULTS[fault])


LIES: dict[str, Json] = {
    "gpus is 1, but the number of devices is 2": {"gpus": 1},
    "healthy is 2, but the number of devices that are not Unhealthy is 1": {"healthy": 2},
    "model does not list the models": {"model": "A100-80GB"},
    "memoryUsedPercent is 26, but devices use 40960 of 163840 MiB": {"memoryUsedPercent": 26},
}


@pytest.mark.parametrize("fault", LIES)
def test_a_summary_cannot_lie(nodes: GpuNodes, fault: str) -> None:
    assert f"summary.{fault}" in nodes.refusal(NODE, with_summary(**LIES[fault]))


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
