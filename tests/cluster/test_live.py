"""A running extender on a cluster: when it is ready, what it knows, and what it says when it knows less."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler_ext.cluster import live as live_module
from scheduler_ext.cluster.transport import Transport
from tests.cluster.api_faults import Hang, Refuse
from tests.cluster.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api_requests import lists, writes
from tests.cluster.api_server import ApiServer
from tests.cluster.following import eventually
from tests.cluster.living import ONE, SICK, WHOLE, Living
from tests.kube_objects import GFD_H100, gpu, gpu_node, node, pod

pytestmark = pytest.mark.usefixtures("impatient")


@pytest.fixture
def living(server: ApiServer, transport: Transport, monkeypatch: pytest.MonkeyPatch) -> Iterator[Living]:
    monkeypatch.setattr(live_module, "_TICK_S", 0.02)
    monkeypatch.setattr(live_module, "_PUBLISH_EVERY_S", 0.002)
    built = Living(server, transport)
    yield built
    server.faults.lift()
    built.live.stop()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("watch-")]
    assert not built.live._thread.is_alive()


class Rounds(threading.Event):
    """Counts how often the publisher has looked for what to publish."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def clear(self) -> None:
        self.count += 1
        super().clear()


@pytest.mark.parametrize("path", [NODES, GPU_NODES, PODS], ids=["nodes", "reports", "pods"])
def test_it_is_ready_when_everything_was_listed(living: Living, path: str) -> None:
    rounds = living.live._changed = Rounds()
    hanging = living.server.faults.place(Hang(), lists(path), times=None)
    living.live.start()
    living.server.log.wait_for(lists(path))
    living.server.wait_for_watches(3)
    before = rounds.count
    eventually(lambda: rounds.count > before + 2)
    assert living.live.snapshot is None
    assert not living.ready()
    assert living.notes()["inventory"] == "failed"
    assert sorted(living.notes().values()) == ["failed", "failed", "ok", "ok", "ok"]
    hanging.lift()
    eventually(living.ready)
    assert living.fitting() == "ab"
    watches = ("watch-nodes", "watch-gpunodes", "watch-pods", "watch-poddisruptionbudgets")
    assert living.notes() == dict.fromkeys((*watches, "inventory"), "ok")


def test_a_list_that_is_refused_is_why_it_is_not_ready(living: Living) -> None:
    living.server.faults.place(Refuse(403, "Forbidden", "may not list pods"), lists(PODS), times=None)
    living.live.start()
    eventually(lambda: "403" in living.notes()["watch-pods"])
    assert living.notes()["watch-pods"] == "not listed yet: 403 Forbidden: may not list pods"
    assert not living.ready()


def test_every_change_is_seen(living: Living) -> None:
    living.start()
    assert living.fitting() == "ab"
    living.bind("p", on="a")
    living.fits("b")
    living.report("b", gpu(0, **SICK))
    living.fits("")
    living.server.store.put(NODES, node("c", {WHOLE: "1"}))
    living.report("c", gpu(0))
    living.fits("c")
    living.server.store.delete(PODS, "p", "default")
    living.fits("ac")
    living.server.store.delete(NODES, "c")
    living.fits("a")


def test_pods_that_finish_let_go(living: Living) -> None:
    living.bind("p", on="a")
    living.start()
    assert living.fitting() == "b"
    living.server.store.put(PODS, pod("p", {WHOLE: "1"}, on="a", phase="Succeeded"))
    living.fits("ab")


def test_a_cordon_is_obeyed(living: Living) -> None:
    living.start()
    living.report("a", gpu(0), annotations={"gpu.scheduler-ext.io/cordoned": "GPU-0"})
    living.fits("b")
    living.report("a", gpu(0))
    living.fits("ab")


def test_an_agent_dead_for_ten_minutes_is_missing_at_once(living: Living) -> None:
    living.report("a", gpu(0), ago_s=600)
    living.start()
    assert living.info("a").freshness == "Missing"
    assert living.fitting() == "b"
    ages_s = living.live.status().report_ages_s
    assert ages_s["a"] == pytest.approx(600, abs=30)
    living.report("a", gpu(0))
    living.fits("ab")


def test_reports_age(living: Living) -> None:
    living.report("a", gpu(0), ago_s=149)
    living.report("b", gpu(0), ago_s=299)
    living.start()
    eventually(lambda: (living.info("a").freshness, living.info("b").freshness) == ("Stale", "Missing"))
    assert living.fitting() == ""


def test_a_node_without_a_report_is_estimated(living: Living) -> None:
    living.server.store.put(NODES, node("c", {WHOLE: "8"}, labels=GFD_H100))
    living.start()
    assert living.info("c").estimate is not None
    assert living.fitting() == "abc"


def test_a_server_that_is_away_is_served_on_without(living: Living) -> None:
    living.start()
    living.server.stop()
    eventually(lambda: all("lost for" in note for name, note in living.notes().items() if "watch" in name))
    assert living.ready()
    assert living.fitting() == "ab"
    assert living.notes()["watch-pods"].startswith("lost for 0 s, what is known is served on: ")
    status = living.live.status()
    assert not any(watch.connected for watch in status.watches)
    assert status.age_s >= 0
    living.bind("p", on="a")
    living.server.start()
    living.fits("b")
    eventually(lambda: living.notes()["watch-nodes"] == "ok")


class TestRefusedReports:
    def test_one_that_contradicts_itself_is_told_and_the_last_good_one_stays(self, living: Living) -> None:
        living.start()
        living.greeted()
        living.report("a", gpu(0), gpu(0, "GPU-1"))
        event = living.server.log.wait_for(writes("/apis/events.k8s.io/v1/events"))[0].json()
        assert event["regarding"]["uid"] == "uid-a"
        assert event["reason"] == "GPUReportRefused"
        assert "devices[1].index" in event["note"]
        assert living.live.status().reports_refused == {"a": 1}
        assert living.fitting() == "ab"
        # The same again counts, but is not written again.
        living.report("a", gpu(0), gpu(0, "GPU-1"))
        eventually(lambda: living.live.status().reports_refused == {"a": 2})
        assert living.server.log.count(writes()) == 1

    def test_also_one_that_cannot_be_read(self, living: Living) -> None:
        living.server.store.put(GPU_NODES, gpu_node("a", [gpu(0) | {"index": -1}]))
        living.start()
        assert living.live.status().reports_refused == {"a": 1}
        assert living.info("a").report is None
        assert living.info("b").report is not None


class TestErrorsOfOurOwn:
    """What was not published is still to be published."""

    @pytest.mark.parametrize("method", ["replace_nodes", "update_nodes"])
    def test_nothing_is_lost(self, living: Living, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
        publish = getattr(living.extender, method)
        failed = threading.Event()

        def fail_once(nodes: Any) -> Any:
            if not failed.is_set():
                failed.set()
                raise ZeroDivisionError
            return publish(nodes)

        if method == "update_nodes":
            living.start()
        monkeypatch.setattr(living.extender, method, fail_once)
        if method == "replace_nodes":
            living.start()
        else:
            living.bind("p", on="a")
        assert failed.wait(5)
        living.fits("ab" if method == "replace_nodes" else "b")


def test_stopping_before_anything_was_listed(living: Living) -> None:
    living.server.faults.place(Refuse(503), lists(), times=None)
    living.live.start()
    living.server.log.wait_for(lists(), 3)


def test_a_pod_nobody_can_read_is_left_out(living: Living) -> None:
    living.server.store.put(PODS, pod("p", {WHOLE: ["1"]}, on="a"))
    living.start()
    assert living.fitting(ONE) == "ab"
