"""One node's GPUNode at an API server: content, frequency, outages and recreated nodes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from scheduler_ext.agent.reporter import Reporter
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire.gpunode import (
    DeviceStatus,
    GpuNodeStatus,
    HealthStatus,
    MemoryStatus,
    WrittenStatus,
)
from tests.cluster.api.api_faults import Cut, Refuse, Reset
from tests.cluster.api.api_paths import GPU_NODES, NODES
from tests.cluster.api.api_requests import Request, writes
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import Json, gpu, gpu_node, node

GPU = DeviceStatus("GPU-a", 0, MemoryStatus(81920), health=HealthStatus("Healthy"))
WELL = WrittenStatus(devices=[GPU])
SICK = WrittenStatus(devices=[GPU.but(health=HealthStatus("Unhealthy", "GPU is lost"))])
OBJECT, STATUS = f"{GPU_NODES}/n", f"{GPU_NODES}/n/status"


class Rig:
    """An API server with one Node, and a reporter with a clock of its own."""

    def __init__(self, server: ApiServer, directory: Path) -> None:
        self.server = server
        self.now = 1000.0
        self.transport = Transport.from_kubeconfig(server.kubeconfig(directory / "kubeconfig"))
        self.reporter = self.restarted()
        server.store.put(NODES, node("n", uid="uid-1", labels={"a": "b"}))

    def restarted(self, boot: str = "boot-1") -> Reporter:
        """A new process of the agent."""
        self.reporter = Reporter(
            self.transport, "n", boot, clock=lambda: self.now, wall_clock=lambda: 1_795_000_000.0 + self.now
        )
        return self.reporter

    def offer(self, status: WrittenStatus = WELL, after_s: float = 0) -> bool:
        """As the agent's loop does it."""
        self.now += after_s
        self.reporter.node()
        return self.reporter.offer(status)

    def report(self) -> Json:
        """The object in the cluster."""
        found: Json = self.server.store.get(GPU_NODES, "n").object()["status"]
        return found

    def asked(self) -> list[str]:
        """The requests since the last time."""
        found = [f"{request.method} {request.path}" for request in self.server.log.all()]
        self.server.log.clear()
        return found

    def owners(self) -> list[str]:
        """The Node's uid of every object that was applied."""
        return [
            request.json()["metadata"]["ownerReferences"][0]["uid"]
            for request in self.server.log.all(
                lambda request: (request.method, request.path) == ("PATCH", OBJECT)
            )
        ]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with ApiServer() as server:
        yield Rig(server, tmp_path)


def test_the_first_report(rig: Rig) -> None:
    assert rig.offer()
    create, status = rig.server.log.all(writes())
    (asked,) = rig.server.log.all(lambda request: request.path == f"{NODES}/n")
    # From the API server's memory.
    assert asked.query == {"resourceVersion": "0"}
    assert rig.asked() == [f"GET {NODES}/n", f"PATCH {OBJECT}", f"PATCH {STATUS}"]
    for request in (create, status):
        assert request.headers["content-type"] == "application/apply-patch+yaml"
        assert request.query == {"fieldManager": "scheduler-ext-agent", "force": "true"}
    named = {"apiVersion": "gpu.scheduler-ext.io/v1alpha1", "kind": "GPUNode"}
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "uid-1"}
    assert create.json() == named | {"metadata": {"name": "n", "ownerReferences": [owner]}}
    assert status.json() == named | {
        "metadata": {"name": "n"},
        "status": {
            "devices": [
                {"uuid": "GPU-a", "index": 0, "memory": {"totalMiB": 81920}, "health": {"state": "Healthy"}}
            ],
            "reportedAt": "2026-11-18T11:23:20Z",
            "sequence": 1,
            "bootID": "boot-1",
        },
    }


def test_later_reports_are_one_write_each(rig: Rig) -> None:
    rig.offer()
    rig.asked()
    assert rig.offer(SICK, after_s=5)
    assert rig.asked() == [f"PATCH {STATUS}"]
    assert rig.report()["sequence"] == 2


class TestSequence:
    @pytest.mark.parametrize(
        ("boot", "sequence"),
        [
            pytest.param("boot-1", 3, id="a restarted agent counts on"),
            pytest.param("boot-2", 1, id="after a boot it starts again"),
        ],
    )
    def test_a_new_agent(self, rig: Rig, boot: str, sequence: int) -> None:
        rig.offer()
        rig.offer(SICK, after_s=5)
        rig.restarted(boot)
        assert rig.offer()
        assert (rig.report()["sequence"], rig.report()["bootID"]) == (sequence, boot)

    def test_the_sequence_continues_after_another_agent_of_the_node(self, rig: Rig) -> None:
        rig.offer()
        rig.server.store.update(
            GPU_NODES, "n", lambda found: found | {"status": found["status"] | {"sequence": 40}}
        )
        rig.server.faults.place(Refuse(422, "Invalid", "status.sequence: went back"), is_status)
        assert not rig.offer(SICK, after_s=5)
        assert rig.offer(SICK, after_s=1)
        assert rig.report()["sequence"] == 41

    def test_a_number_that_may_have_arrived_is_not_counted(self, rig: Rig) -> None:
        rig.offer()
        rig.server.faults.place(Cut(20), is_status)
        assert not rig.offer(SICK, after_s=5)
        assert rig.offer(SICK, after_s=1)
        assert rig.report()["sequence"] == 2


def is_status(request: Request) -> bool:
    return request.path == STATUS


class TestTheNode:
    def test_the_labels_of_the_node_are_read_again(self, rig: Rig) -> None:
        rig.reporter.node()
        rig.server.store.put(NODES, node("n", uid="uid-1", labels={"a": "c"}))
        seen = []
        for _ in range(10):
            found = rig.reporter.node()
            seen.append(found.labels["a"] if found is not None else None)
            rig.now += 5
        assert seen == ["b"] * 9 + ["c"]

    def test_without_it_nothing_is_written(self, rig: Rig) -> None:
        rig.server.store.delete(NODES, "n")
        assert [rig.offer(after_s=30) for _ in range(3)] == [False] * 3
        assert rig.server.log.all(writes()) == []
        rig.server.store.put(NODES, node("n", uid="uid-2"))
        assert rig.offer(after_s=30)
        assert rig.owners() == ["uid-2"]

    def test_a_new_one_of_the_same_name_becomes_the_owner(self, rig: Rig) -> None:
        rig.offer()
        rig.server.store.delete(NODES, "n")
        rig.server.store.put(NODES, node("n", uid="uid-2"))
        written = [rig.offer(after_s=5) for _ in range(9)]
        # Within 45 s, although nothing else has changed.
        assert written == [False] * 8 + [True]
        assert rig.owners() == ["uid-1", "uid-2"]

    def test_a_new_one_whose_report_was_collected_as_garbage(self, rig: Rig) -> None:
        rig.offer()
        rig.server.store.put(NODES, node("n", uid="uid-2"))
        rig.server.store.delete(GPU_NODES, "n")
        assert not rig.offer(SICK, after_s=5)
        assert rig.offer(SICK, after_s=1)
        assert rig.owners() == ["uid-1", "uid-2"]
        assert rig.report()["sequence"] == 1


def test_a_deleted_gpunode_is_written_again(rig: Rig) -> None:
    rig.offer()
    rig.server.store.delete(GPU_NODES, "n")
    written = [rig.offer(after_s=5) for _ in range(16)]
    # By the next refresh, within 72 s and one more look.
    assert True in written
    assert rig.report()["sequence"] == 1


class TestOutages:
    @pytest.mark.parametrize(
        ("fault", "path"),
        [
            pytest.param(Refuse(403, "Forbidden"), OBJECT, id="no permission"),
            pytest.param(Reset(), STATUS, id="connections are reset"),
            pytest.param(Cut(3), f"{NODES}/n", id="answers break off"),
        ],
    )
    def test_reports_continue_after_an_outage(
        self, rig: Rig, caplog: pytest.LogCaptureFixture, fault: Refuse | Reset | Cut, path: str
    ) -> None:
        caplog.set_level(logging.INFO)
        placed = rig.server.faults.place(fault, lambda request: request.path == path, None)
        assert [rig.offer(after_s=30) for _ in range(4)] == [False] * 4
        assert placed.hits >= 4
        placed.lift()
        assert rig.offer(after_s=30)
        assert rig.report()["devices"]
        told = [record.getMessage() for record in caplog.records if record.name.endswith("reporter")]
        assert [text.split(": ")[1] for text in told] == [
            "report not written, trying again",
            "reports are written again",
        ]

    def test_reports_are_tried_ever_more_slowly_during_an_outage(self, rig: Rig) -> None:
        rig.server.faults.place(Refuse(503), times=None)
        tried = []
        for _ in range(1200):
            rig.asked()
            rig.offer(after_s=0.25)
            if rig.asked():
                tried.append(rig.now)
        waits = [after - before for before, after in pairwise(tried)]
        assert all(wait >= min(15, 2**n / 4) for n, wait in enumerate(waits))
        assert 15 <= max(waits) <= 30.25
        assert len(tried) < 25

    def test_the_server_may_ask_for_more_time(self, rig: Rig) -> None:
        rig.server.faults.place(Refuse(429, "TooManyRequests", retry_after_s=20))
        assert [rig.offer(after_s=1) for _ in range(20)] == [False] * 20
        assert rig.server.log.count() == 1
        assert rig.offer(after_s=6)

    def test_a_failure_after_success_is_a_first_one_again(self, rig: Rig) -> None:
        rig.server.faults.place(Refuse(503), times=6)
        while not rig.offer(after_s=30):
            continue
        rig.server.faults.place(Refuse(503))
        assert not rig.offer(SICK, after_s=5)
        assert rig.offer(SICK, after_s=0.5)


@pytest.mark.parametrize(
    ("boot", "told"),
    [
        pytest.param("boot-1", ["XID 79: gone"], id="of this boot"),
        pytest.param("boot-0", [], id="but not of the one before, which a reset ended"),
    ],
)
def test_the_status_of_an_earlier_agent_counts_within_one_boot(rig: Rig, boot: str, told: list[str]) -> None:
    sick = gpu(0, health={"state": "Unhealthy", "reason": "XID 79: gone"})
    rig.server.store.put(GPU_NODES, gpu_node("n", [sick], bootID=boot, sequence=7))
    heard: list[str] = []

    def remember(written: GpuNodeStatus) -> None:
        heard.extend((each.health and each.health.reason) or "" for each in written.devices or ())

    assert rig.reporter.node() is not None
    assert rig.reporter.begin(remember)
    assert heard == told


def test_a_report_of_this_boot_that_cannot_be_read_is_replaced(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """As a newer agent may have written it, before it was rolled back."""
    rig.server.store.put(GPU_NODES, gpu_node("n", [{"serial": 7}], bootID="boot-1", sequence=7))
    heard: list[GpuNodeStatus] = []
    assert rig.reporter.node() is not None
    assert rig.reporter.begin(heard.append)
    assert [status.devices for status in heard] == [None]
    assert "the last report is ignored" in caplog.text
    assert rig.offer()
    assert rig.report()["sequence"] == 8
    assert [device["uuid"] for device in rig.report()["devices"]] == ["GPU-a"]


def test_a_look_writes_nothing_and_numbers_as_a_report_would(rig: Rig) -> None:
    heard: list[GpuNodeStatus] = []
    assert rig.reporter.look(heard.append).labels == {"a": "b"}
    assert rig.reporter.numbered(WELL).sequence == 1
    rig.offer()
    rig.asked()
    assert rig.restarted().look(heard.append).uid == "uid-1"
    numbered = WELL.but(sequence=2, boot_id="boot-1", reported_at="2026-11-18T11:23:20Z")
    assert rig.reporter.numbered(WELL) == numbered
    assert [len(status.devices or ()) for status in heard] == [1]
    assert rig.asked() == [f"GET {NODES}/n", f"GET {OBJECT}"]


def test_a_look_at_a_node_that_is_not_there_fails(rig: Rig) -> None:
    rig.server.store.delete(NODES, "n")
    with pytest.raises(ClusterError, match="404"):
        rig.reporter.look(lambda status: None)
