"""Nodes, GPUNodes and Pods as events for the inventory; an object that a list lacks is gone."""

from __future__ import annotations

import json
import math
import time
from typing import Any, TypeVar

import pytest

from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.cluster.events.inventory_events import ReportProblems
from scheduler_ext.cluster.following import PodFollower
from scheduler_ext.cluster.inventory.node_handler import NodeHandler
from scheduler_ext.cluster.inventory.pod_handler import PodHandler
from scheduler_ext.cluster.inventory.report_handler import ReportHandler
from scheduler_ext.cluster.inventory.server_times import received_at
from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.gpunode import GpuNode, GpuNodeMeta, ManagedFields
from scheduler_ext.wire.watching import Broken, Decoder
from tests.kube_objects import GFD_H100, SHARE, Json, gpu, gpu_node, node, pod

WHOLE = "nvidia.com/gpu"
_T = TypeVar("_T")
# The server's clock at this moment of the local one.
NOON = 1_800_000_000.0


def at(seconds_ago: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOON - seconds_ago))


def reported(name: str, *devices: Json, ago_s: float = 0, owner: str | None = None, **status: Any) -> Json:
    """A GPUNode with a status of this age."""
    found = gpu_node(name, devices or [gpu(0)], **status)
    found["metadata"] |= {
        "managedFields": [
            {"manager": "kubectl", "operation": "Update", "time": at(0)},
            {"manager": "agent", "operation": "Apply", "subresource": "status", "time": at(ago_s)},
            {"manager": "old", "operation": "Apply", "subresource": "status", "time": at(9999)},
        ],
        "ownerReferences": [{"kind": "Node", "name": name, "uid": owner}] if owner else None,
    }
    return found


def read(kind: type[_T], *objects: Json) -> list[_T]:
    """Objects as in a list."""
    return Decoder(kind).page(json.dumps({"items": objects}).encode()).items


def created(name: str, ago_s: float) -> Json:
    """A Node with GPUs and no report."""
    found = node(name, {"nvidia.com/gpu": "4"})
    found["metadata"]["creationTimestamp"] = at(ago_s)
    return found


class Told:
    """An inventory and its three handlers; `followers` follow the pods, too."""

    def __init__(self, *followers: PodFollower) -> None:
        self.inventory = Cache(150, 300)
        self.woken = 0
        self.problems = ReportProblems()
        self.extender = Extender(Configuration())
        self.locked = LockedCache(self.inventory, self.extender)
        parts = (self.locked, ResourceNames(), self._wake)
        self.nodes = NodeHandler(*parts)
        self.pods = PodHandler(*parts, followers)
        self.reports = ReportHandler(*parts, self.problems)

    def _wake(self) -> None:
        self.woken += 1

    def clock(self) -> ServerClock:
        return ServerClock(NOON, time.monotonic())

    def see_nodes(self, *objects: Json) -> None:
        self.nodes.upsert(read(kube.NodeObject, *objects), self.clock())

    def see_pods(self, *objects: Json) -> None:
        self.pods.upsert(read(kube.Pod, *objects), self.clock())

    def see_reports(self, *objects: Json, not_before_ago_s: float = math.inf) -> None:
        now = time.monotonic()
        self.reports.upsert(read(GpuNode, *objects), ServerClock(NOON, now, now - not_before_ago_s))

    def told(self) -> list[tuple[str, str]]:
        """The events to write: node and text."""
        return [(node, note) for node, _, note, _ in self.problems.take_unwritten()]

    def age_s(self, name: str = "a") -> int:
        return round(self.inventory.ages(time.monotonic())[name])

    def info(self, name: str = "a") -> NodeInfo:
        info = self.inventory.info(name)
        assert info is not None
        return info

    def waking(self) -> bool:
        """Whether a subscriber was notified since the last call."""
        woken, self.woken = self.woken, 0
        return woken > 0


@pytest.fixture
def told() -> Told:
    return Told()


class TestNodes:
    def test_the_time_for_a_report_begins_when_the_node_is_created(self, told: Told) -> None:
        """Not when the extender starts: it would let pods to an old node for another five minutes."""
        told.see_nodes(created("old", 3600), created("new", 60))
        assert [told.info(name).freshness for name in ("old", "new")] == ["Missing", "Fresh"]

    def test_objects_that_a_list_lacks_are_gone(self, told: Told) -> None:
        told.see_nodes(node("a"), node("b"), node("c"))
        told.nodes.begin()
        # This list did not end, and says nothing.
        told.see_nodes(node("b"))
        told.nodes.begin()
        told.see_nodes(node("a"))
        told.see_nodes(node("d"))
        told.nodes.broken(Broken("c", "uid-c", "cannot be read"))
        # Until the list is complete, absence proves nothing.
        assert told.inventory.nodes() == {"a", "b", "c", "d"}
        told.nodes.end()
        assert told.inventory.nodes() == {"a", "c", "d"}

    def test_an_unreadable_amount_keeps_the_last_value(
        self, told: Told, caplog: pytest.LogCaptureFixture
    ) -> None:
        told.see_nodes(node("a", {WHOLE: "8"}), node("b"))
        told.nodes.begin()
        told.see_nodes(node("a", {WHOLE: "many"}), node("b", {WHOLE: "1"}))
        told.nodes.end()
        counts = {info.name: info.allocatable for info in told.inventory.infos()}
        assert counts == {"a": {WHOLE: 8}, "b": {WHOLE: 1}}
        assert "Node a is unreadable, its last state stays: nvidia.com/gpu" in caplog.text


class TestPods:
    def test_only_those_that_hold_gpus_of_a_node_count(self, told: Told) -> None:
        told.see_pods(
            pod("holds", {WHOLE: "1"}, on="a"),
            pod("shares", {SHARE: "1024"}, on="b"),
            pod("waits", {WHOLE: "1"}),
            pod("done", {WHOLE: "1"}, on="a", phase="Succeeded"),
            pod("none", {"cpu": "1"}, on="a"),
        )
        assert told.inventory.holding() == {"uid-holds": "a", "uid-shares": "b"}
        assert told.waking()

    def test_the_last_of_several_events_about_a_pod_counts(self, told: Told) -> None:
        """A pod that is created and bound at once arrives twice in one piece."""
        told.see_pods(
            pod("p", {WHOLE: "1"}),
            pod("p", {WHOLE: "1"}, on="a"),
            pod("q", {WHOLE: "1"}, on="a"),
            pod("q", {WHOLE: "1"}, on="a", phase="Succeeded"),
        )
        assert told.inventory.holding() == {"uid-p": "a"}

    def test_objects_that_a_list_lacks_are_gone(self, told: Told) -> None:
        told.see_pods(*(pod(name, {WHOLE: "1"}, on="a") for name in "pqr"))
        told.pods.begin()
        told.see_pods(pod("p", {WHOLE: "1"}, on="a"))
        told.pods.broken(Broken("default/q", "uid-q", "cannot be read"))
        told.pods.end()
        assert set(told.inventory.holding()) == {"uid-p", "uid-q"}


class TestPodsWithoutGpus:
    """They are followed for the CPU that they take of their node."""

    @pytest.fixture(autouse=True)
    def nodes(self, told: Told) -> None:
        """A node "a" of 64 cores and one GPU, one "b" without."""
        told.see_nodes(node("a", {WHOLE: "1"}), node("b"))
        told.see_reports(reported("a"))
        told.inventory.take_changes()
        told.waking()

    @staticmethod
    def web(name: str, cpu: object = "8", on: str | None = "a", **fields: Any) -> Json:
        return pod(name, {"cpu": cpu}, on=on, **fields)

    @pytest.mark.parametrize(
        ("second", "milli"),
        [
            pytest.param(web("q", "500m"), 8500, id="another"),
            pytest.param(pod("q", {WHOLE: "1", "cpu": "4"}, on="a"), 8000, id="not one with GPUs"),
            pytest.param(web("p", phase="Failed"), 0, id="the first has finished"),
            pytest.param(web("q", phase="Succeeded"), 8000, id="not one that was heard of too late"),
            pytest.param(web("q", on=None), 8000, id="not one that waits"),
            pytest.param(web("q", "many"), 8000, id="not an unreadable one"),
            pytest.param(web("q", ["8"]), 8000, id="nor one that does not decode"),
        ],
    )
    def test_the_pods_that_count(self, told: Told, second: Json, milli: int) -> None:
        for each in (self.web("p"), second):
            told.see_pods(each)
        assert told.info().cpu_elsewhere_milli == milli
        assert told.waking()

    def test_no_pod_is_woken_for_a_change_without_effect_on_decisions(self, told: Told) -> None:
        told.see_pods(self.web("p", "1"))
        told.inventory.take_changes()
        told.waking()
        told.see_pods(self.web("q", "1m"), self.web("r", on="b"))
        assert not told.waking()

    def test_pods_that_a_list_lacks_no_longer_count(self, told: Told) -> None:
        told.see_pods(*(self.web(name) for name in "pqr"))
        told.pods.begin()
        told.see_pods(self.web("p"))
        told.pods.broken(Broken("default/q", "uid-q", "cannot be read"))
        told.see_pods(self.web("s", "1"))
        assert told.info().cpu_elsewhere_milli == 25_000
        told.pods.end()
        assert told.info().cpu_elsewhere_milli == 17_000
        assert told.pods._unlisted == set()


class TestReports:
    @pytest.mark.parametrize(
        ("ago_s", "freshness"),
        [
            pytest.param(0, "Fresh", id="just now"),
            pytest.param(200, "Stale", id="more than two minutes ago"),
            pytest.param(600, "Missing", id="by an agent that died ten minutes ago"),
            pytest.param(-60, "Fresh", id="by a clock that is ahead"),
        ],
    )
    def test_the_age_of_a_report_is_by_the_servers_clock(
        self, told: Told, ago_s: float, freshness: str
    ) -> None:
        told.see_nodes(node("a"))
        # The agent's own clock does not matter.
        told.see_reports(reported("a", ago_s=ago_s, reportedAt="2001-01-01T00:00:00Z"))
        assert told.info().freshness == freshness

    def test_one_that_contradicts_itself_is_refused_and_the_last_good_one_ages(self, told: Told) -> None:
        told.see_nodes(node("a"))
        told.see_reports(reported("a", gpu(0), ago_s=200, sequence=5))
        for wrong, problem in (
            (reported("a", gpu(0), gpu(0, "GPU-x"), sequence=6), "devices[1].index"),
            (reported("a", gpu(0, memory={"totalMiB": 10, "usedMiB": 11})), "exceed 10 in total"),
            (reported("a", gpu(0), sequence=4), "went back from 5 to 4"),
        ):
            told.see_reports(wrong)
            ((name, note),) = told.told()
            assert name == "a"
            assert problem in note
        assert told.problems.refusals == {"a": 3}
        assert told.info().freshness == "Stale"
        told.see_reports(reported("a", gpu(0), sequence=6))
        assert told.info().freshness == "Fresh"

    def test_one_that_cannot_be_read_is_refused_too(self, told: Told) -> None:
        told.see_nodes(node("a"))
        told.see_reports(reported("a", gpu(0)))
        told.reports.begin()
        told.reports.broken(Broken("a", "uid", "status.devices[0].index: Expected `int` >= 0"))
        told.reports.end()
        assert told.told() == [
            ("a", "GPUNode a: status.devices[0].index: Expected `int` >= 0; the report is refused")
        ]
        assert told.inventory.reports() == {"a"}

    def test_one_of_a_former_node_of_that_name_is_none(self, told: Told) -> None:
        told.see_nodes(node("a", uid="new", labels=GFD_H100))
        told.see_reports(reported("a", gpu(0), owner="old"))
        assert (told.info().report, told.info().estimate is not None) == (None, True)
        told.see_reports(reported("a", gpu(0), owner="new"))
        assert told.info().report is not None


@pytest.mark.parametrize(
    ("numbers", "age_s"),
    [
        pytest.param({"sequence": 5, "bootID": "x"}, 100, id="the same"),
        pytest.param({"sequence": 6, "bootID": "x"}, 0, id="the next"),
        pytest.param({"sequence": 5, "bootID": "y"}, 0, id="one after a reboot"),
        pytest.param({}, 0, id="one without a number"),
    ],
)
@pytest.mark.parametrize("stamped", [False, True])
def test_one_seen_again_is_no_younger(stamped: bool, numbers: Json, age_s: int) -> None:
    """Cordoning a GPU on the node of a dead agent does not revive the agent."""
    first = gpu_node("a", [gpu(0)], sequence=5, bootID="x")
    told = Told()
    told.see_nodes(node("a"))
    told.see_reports(first)
    told.inventory._entries["a"].received_at -= 100
    again = gpu_node("a", [gpu(0)], **numbers)
    again["metadata"]["annotations"] = {"gpu.scheduler-ext.io/cordoned": "GPU-0"}
    if stamped:
        again["metadata"]["managedFields"] = [{"subresource": "status", "time": at(0)}]
    told.see_reports(again, not_before_ago_s=0)
    assert told.age_s() == age_s


@pytest.mark.parametrize(("uid", "gpus"), [("uid-1", 1), ("uid-2", 2)], ids=["the same", "a new object"])
def test_an_object_that_was_made_again_counts_from_the_start(uid: str, gpus: int) -> None:
    """It went and returned while no watch ran; the API server compares versions within one object only."""
    told = Told()
    for uid_, sequence, devices in (("uid-1", 500, [gpu(0)]), (uid, 1, [gpu(0), gpu(1)])):
        report = gpu_node("a", devices, sequence=sequence, bootID="x")
        report["metadata"]["uid"] = uid_
        told.see_reports(report)
    last, _ = told.inventory.last_report("a")
    assert last is not None
    assert len(last.devices) == gpus


def test_one_that_a_watch_brings_was_written_after_its_last_word() -> None:
    """For any clock of the API server since the watch began."""
    told = Told()
    told.see_reports(reported("a", gpu(0), ago_s=600, sequence=1), not_before_ago_s=40)
    assert told.age_s() == 40
    told.see_reports(reported("a", gpu(0), ago_s=20, sequence=2), not_before_ago_s=40)
    assert told.age_s() == 20


@pytest.mark.parametrize(
    ("times", "at_s"),
    [
        pytest.param([("status", 60)], 40, id="what the status was written"),
        pytest.param([("status", 60), ("status", 20), ("status", 90)], 80, id="the newest of several"),
        pytest.param([("status", 60), (None, 1), ("scale", 2)], 40, id="only the status counts"),
        pytest.param([(None, 1)], 100, id="no time given: now"),
        pytest.param([], 100, id="no entries: now"),
        pytest.param([("status", -30)], 100, id="not later than now"),
    ],
)
def test_when_a_report_was_received(times: list[tuple[str | None, float]], at_s: float) -> None:
    fields = [ManagedFields(subresource=what, time=at(ago)) for what, ago in times]
    assert received_at(GpuNodeMeta(managed_fields=fields), ServerClock(NOON, 100.0), 100.0) == at_s
