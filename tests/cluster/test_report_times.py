"""The age of a report: by the API server's clock, and never younger for being seen again."""

from __future__ import annotations

import pytest

from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.cluster.inventory.server_times import received_at
from scheduler_ext.wire.gpunode import GpuNodeMeta, ManagedFields
from tests.cluster.test_inventory_handlers import NOON, Told, at, reported
from tests.kube_objects import Json, gpu, gpu_node, node


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
