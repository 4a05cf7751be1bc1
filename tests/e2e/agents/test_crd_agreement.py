"""The API server and the reader accept the same reports, except for the differences listed here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from tests.agent.gpunode_reports import (
    instance,
    profile,
    reader_refusal,
    with_mig,
    with_summary,
)
from tests.agent.odd_reports import statuses
from tests.e2e.agents.gpunode_api import GpuNodes, install
from tests.e2e.cluster.control_plane import ControlPlane
from tests.kube_objects import Json, holder
from tests.wire.reports.gpunode_status import changed

NODE = "agreement"
DEVICE = "devices[0]"


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
        pytest.param(
            "server",
            with_mig(profiles=[profile(f"{n}g.10gb") for n in range(1, 34)]),
            id="more profiles than NVML numbers",
        ),
        # JSON carries whole numbers exactly up to here.
        pytest.param("server", changed("sequence", 2**53), id="a number that JSON may round"),
        # Not read, but with a fixed meaning for other readers.
        pytest.param(
            "server", changed("reportedAt", "yesterday"), id="no time, so kubectl could not show it"
        ),
        # They will be printed.
        *(
            pytest.param("server", changed(field, "a\x1b[2J"), id=f"{field} with a control character")
            for field in (
                *("bootID", "driverVersion", f"{DEVICE}.health.reason", f"{DEVICE}.holders[0].uid"),
                *(f"{DEVICE}.{key}" for key in ("vendor", "model", "product", "architecture")),
            )
        ),
        pytest.param("server", with_mig(profiles=[profile(starts=(0, 0))]), id="one start twice"),
        pytest.param("server", changed(f"{DEVICE}.pciBusID", "7:0.0"), id="no PCI address"),
        pytest.param("server", changed(f"{DEVICE}.numaNode", -2), id="no NUMA node"),
        pytest.param("server", changed(f"{DEVICE}.links", [{"peer": "GPU-1", "kind": "two"}]), id="no link"),
        # No pod can have such a name, so the holder would stay unknown.
        pytest.param("server", changed(f"{DEVICE}.holders[1].name", "Q/2"), id="no pod's name"),
        pytest.param("server", changed(f"{DEVICE}.holders[1].namespace", "a.b"), id="no namespace's name"),
        pytest.param("server", changed(f"{DEVICE}.holders[0].container", "Main"), id="no container's name"),
        # Profiles are known by their name, so it has one spelling.
        pytest.param("server", with_mig(instance("MIG-a", 0, profile="1G.10GB")), id="a profile in capitals"),
        pytest.param(
            "server", with_mig(instance("MIG-a", 0, profile="1g.10gb.me")), id="a resource's spelling"
        ),
        # The reader skips profiles that it does not use; here they count as written.
        pytest.param(
            "server", with_mig(gridSize=None, profiles=[profile()] * 2), id="no grid, one profile twice"
        ),
        pytest.param("server", with_mig(gridSize=None, profiles=[profile(size=0)]), id="no grid, no size"),
        pytest.param(
            "server", with_mig(profiles=[profile("huge", starts=())]), id="no profile, and not placed"
        ),
        # Kubernetes' validation allows no null beside an enum, and apply no field outside the schema.
        pytest.param("server", changed("migStrategy", None), id="null for a word of a closed set"),
        pytest.param("server", changed(f"{DEVICE}.fromTheFuture", 1), id="an unknown field, applied"),
        # It is for people, who would believe it.
        pytest.param("server", with_summary(gpus=1), id="a summary that lies, which the reader skips"),
        # Prevents an instance with the UUID of a GPU; comparing them would cost too much.
        pytest.param("server", with_mig(instance("a", 0)), id="an instance's UUID that does not say so"),
        pytest.param("server", changed(f"{DEVICE}.uuid", "MIG-1"), id="a GPU's UUID of an instance"),
        # No difference in a cluster: the API server returns 1.
        pytest.param("reader", changed(f"{DEVICE}.index", 1.0), id="a whole number written as 1.0"),
    ],
)
def test_one_is_stricter_than_the_other(nodes: GpuNodes, stricter: str, status: Json) -> None:
    refused = {"server": bool(nodes.refusal(NODE, status)), "reader": bool(reader_refusal(status))}
    assert [name for name, refuses in refused.items() if refuses] == [stricter]


def test_a_whole_number_written_as_1_0_is_given_back_as_1(nodes: GpuNodes) -> None:
    given = nodes.report(NODE, changed(f"{DEVICE}.index", 1.0), query="&dryRun=All")["status"]
    assert reader_refusal(given) == ""


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
