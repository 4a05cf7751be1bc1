"""A running extender on a cluster: its readiness, its knowledge, and its messages when it knows less."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from scheduler_ext.wire.held_annotation import HELD_ANNOTATION
from scheduler_ext.wire.times import time_text
from tests.cluster.api.api_faults import Hang, Refuse
from tests.cluster.api.api_paths import BUDGETS, GPU_NODES, NODES, PODS
from tests.cluster.api.api_requests import lists, writes
from tests.cluster.following import eventually
from tests.cluster.living import SICK, TWO, WHOLE, Living
from tests.extender.preempting import preempt, uids
from tests.kube_objects import gpu, node, pod

EVENTS = "/apis/events.k8s.io/v1/events"
pytestmark = pytest.mark.usefixtures("impatient")


class Rounds(threading.Event):
    """Counts the publisher's looks."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def clear(self) -> None:
        self.count += 1
        super().clear()


@pytest.mark.parametrize("path", [NODES, GPU_NODES, PODS], ids=["nodes", "reports", "pods"])
def test_an_extender_is_ready_when_everything_was_listed(living: Living, path: str) -> None:
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
    assert sorted(living.notes().values()) == ["failed", "failed", "ok", "ok", "ok", "ok"]
    hanging.lift()
    eventually(living.ready)
    assert living.fitting() == "ab"
    watches = ("watch-nodes", "watch-gpunodes", "watch-pods", "watch-poddisruptionbudgets")
    assert living.notes() == dict.fromkeys((*watches, "discovery-dra", "inventory"), "ok")


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


def ends(living: Living) -> None:
    living.server.store.put(PODS, pod("p", {WHOLE: "1"}, on="a", phase="Succeeded"))


def is_created_again_without_gpus(living: Living) -> None:
    living.server.store.delete(PODS, "p", "default")
    recreated = pod("p", {})
    recreated["metadata"]["uid"] = "another"
    living.server.store.put(PODS, recreated)


@pytest.mark.parametrize("goes", [ends, is_created_again_without_gpus])
def test_a_pod_is_gone_when_it_neither_waits_nor_holds_gpus(
    living: Living, goes: Callable[[Living], None]
) -> None:
    asking = pod("p", {WHOLE: "1"})
    uid = asking["metadata"]["uid"]
    living.server.store.put(PODS, asking)
    living.start()
    assert not living.live.is_gone(uid), "it waits"
    living.bind("p", on="a")
    living.fits("b")
    assert not living.live.is_gone(uid), "it has its node"
    goes(living)
    eventually(lambda: living.live.is_gone(uid))


def test_no_pod_is_reported_gone_while_pods_are_not_followed(living: Living) -> None:
    assert not living.live.is_gone("new"), "the server was not asked yet"
    living.start()
    assert living.live.is_gone("new")
    living.server.stop()
    eventually(lambda: not living.live.is_gone("new"))


def test_an_agent_dead_for_ten_minutes_is_missing_at_once(living: Living) -> None:
    living.report("a", gpu(0), ago_s=600)
    living.start()
    assert living.info("a").freshness == "Missing"
    assert living.fitting() == "b"
    ages_s = living.live.status().report_ages_s
    assert ages_s["a"] == pytest.approx(600, abs=30)
    living.report("a", gpu(0))
    living.fits("ab")


def test_lists_are_read_with_pauses_while_kube_scheduler_asks(
    living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    living.start()
    served = living.live._pods._rate_limiter._served
    assert not served()
    living.fitting()
    assert served()
    asked_at = living.extender.asked_at
    monkeypatch.setattr(living.extender, "asked_at", asked_at - 2.0)
    assert not served()


def test_a_server_that_is_away_is_served_on_without(living: Living) -> None:
    living.start()
    living.server.stop()
    eventually(lambda: all("lost for" in note for name, note in living.notes().items() if "watch" in name))
    assert living.ready()
    assert living.fitting() == "ab"
    assert re.match(r"lost for \d+ s, the last state stays in force: ", living.notes()["watch-pods"])
    status = living.live.status()
    assert not any(watch.connected for watch in status.watches)
    assert status.age_s >= 0
    living.bind("p", on="a")
    living.server.start()
    living.fits("b")
    eventually(lambda: living.notes()["watch-nodes"] == "ok")


def problems(living: Living) -> dict[str, str]:
    """The reason for outdated data."""
    return {each.what: each.text for each in living.live.status().problems}


def test_a_list_that_is_forbidden_is_a_problem_before_anything_is_known(living: Living) -> None:
    refused = living.server.faults.place(Refuse(403, "Forbidden", "may not"), lists(PODS), times=None)
    living.live.start()
    eventually(lambda: problems(living) == {"watch of pods": "403 Forbidden: may not"})
    refused.lift()
    eventually(lambda: problems(living) == {} and living.live.snapshot is not None)


def test_cordons_of_no_gpu_are_reported_once_for_each_change(living: Living) -> None:
    """A mistyped UUID cordons no GPU: its author has to learn of that."""

    def cordon(which: str, used_mib: int = 0) -> None:
        device = gpu(0, memory={"totalMiB": 81920, "usedMiB": used_mib})
        living.report("a", device, annotations={"gpu.scheduler-ext.io/cordoned": which})

    living.start()
    living.greeted()
    for number in range(3):
        cordon("GPU-0, gpu-0", number)
    (event,) = (request.json() for request in living.server.log.wait_for(writes(EVENTS)))
    assert (event["type"], event["reason"]) == ("Warning", "GPUCordonUnknown")
    assert event["regarding"]["uid"] == "uid-a"
    assert "GPUNode a: gpu.scheduler-ext.io/cordoned names gpu-0, which no GPU" in event["note"]
    living.fits("b")
    cordon("GPU-00")
    assert "names GPU-00," in living.server.log.wait_for(writes(EVENTS), 2)[1].json()["note"]
    cordon("GPU-0")
    living.fits("b")
    assert living.server.log.count(writes(EVENTS)) == 2


@pytest.mark.parametrize("method", ["replace_nodes", "update_nodes"])
def test_an_error_of_our_own_loses_no_change(
    living: Living, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    publish = getattr(living.extender, method)
    failed = threading.Event()

    def fail_once(nodes: Any, **options: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise ZeroDivisionError
        return publish(nodes, **options)

    if method == "update_nodes":
        living.start()
    monkeypatch.setattr(living.extender, method, fail_once)
    if method == "replace_nodes":
        living.start()
    else:
        living.bind("p", on="a")
    assert failed.wait(60)
    living.fits("ab" if method == "replace_nodes" else "b")


def test_a_room_is_held_by_the_servers_clock_until_it_ends(living: Living) -> None:
    # Far from the clock of this machine.
    living.server.clock = lambda: time.time() - 7200.0

    def hold(seconds: float) -> None:
        """Hold room on node a for the pod two."""
        room = {"for": "default/two", "until": time_text(living.server.clock() + seconds)}
        living.report("a", gpu(0), gpu(1, "GPU-1"), annotations={HELD_ANNOTATION: json.dumps([room])})

    living.server.store.put(PODS, TWO)
    living.start()
    hold(3600.0)
    living.fits("b")
    assert living.fitting(TWO) == "a"
    hold(-1.0)
    living.fits("ab")


def test_a_budget_keeps_its_pod_where_another_would_do(living: Living) -> None:
    store = living.server.store
    for name, priority in (("low", 1), ("high", 5)):
        held = pod(name, {WHOLE: "1"}, on="a", priority=priority)
        held["metadata"]["labels"] = {"app": name}
        store.put(PODS, held)
    living.report("a", gpu(0, "GPU-0"), gpu(1, "GPU-1"))
    living.start()
    urgent = pod("urgent", {WHOLE: "1"}, priority=100)

    def leaves() -> list[str]:
        # Without its memory of the last answer: a named place stays the pod's.
        living.extender.preemption_answers.forget("uid-urgent")
        return preempt(living.extender, urgent, {"a": uids("low")}).get("a", [])

    eventually(lambda: leaves() == ["low"])
    budget = {
        "metadata": {"name": "low", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "low"}}},
        "status": {"disruptionsAllowed": 0},
    }
    store.put(BUDGETS, budget)
    eventually(lambda: leaves() == ["high"])


def test_pods_that_wait_are_known_with_their_manifest(living: Living) -> None:
    waiting = pod("w", {WHOLE: "9"}, nodeSelector={"zone": "x"})
    waiting["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "SECRET"}]
    living.server.store.put(PODS, waiting)
    living.start()
    (pending,) = living.live.pending()
    assert b'"nodeSelector":{"zone":"x"}' in pending.manifest
    assert b"SECRET" not in pending.manifest
    living.bind("w", "a")
    eventually(lambda: not living.live.pending())
