"""Waiting pods with their reasons, and the time that the search for them takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.node.node import Wait
from scheduler_ext.core.request.gang_request import GATE
from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.sentences import BEING_DELETED
from scheduler_ext.explain.waiting import FITS_NOW, NOT_ASKED, LongWait, WaitingPods
from tests.explain.explaining import free_node
from tests.explain.test_replay import Running, running
from tests.extender.preempting import on_share, share_node, whole_node
from tests.extender.test_record import ask
from tests.kube_objects import ANNOTATION, SHARE, Json, gpu, gpu_node, node, pod

WHOLE = "nvidia.com/gpu"
GPUS = "Insufficient nvidia.com/gpu per device"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def board(there: Running, clock: Clock | None = None) -> WaitingPods:
    return WaitingPods(there, there.extender.record, there.explainer(), clock or Clock())


def told(board: WaitingPods) -> list[tuple[str, str, str | None]]:
    return [(line["name"], line["reason"], line["nearest"]) for line in board.lines()]


def test_each_is_shown_with_its_reason_and_the_nearest_node() -> None:
    wants = pod("wants", {SHARE: "50000"})
    there = running(*share_node("n", 1), on_share("x", 60_000, "n", 0), wants)
    ask(there.extender, wants, ["n"])
    (line,) = board(there).lines()
    assert line == {
        "namespace": "default",
        "name": "wants",
        "uid": "uid-wants",
        "state": "Waiting",
        "priority": 0,
        "since": None,
        "asks": "50000 MiB of a GPU",
        "filters": 1,
        "served": True,
        "fits": 0,
        "reason": "Insufficient GPU memory on one device",
        "nearest": "n GPU 0 is 36,272 MiB short (needs 50,000, has 13,728); would fit if pod default/x "
        "(priority 0) left",
        "commonest": {"reason": "Insufficient GPU memory on one device", "nodes": 1, "of": 1},
        "refusals": {"Insufficient GPU memory on one device": 1},
        "nominated": None,
    }


def test_a_pod_that_fits_and_that_kube_scheduler_never_asked_about() -> None:
    there = running(*whole_node("n", None), pod("p", {WHOLE: "1"}))
    assert told(board(there)) == [("p", NOT_ASKED, FITS_NOW)]


GATED = pod("p", {WHOLE: "1"}, schedulingGates=[{"name": GATE}])


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        pytest.param(
            Wait("gang ml/train: 1 of 2 members fit", "Insufficient cpu"),
            ("p", "Insufficient cpu", "gang ml/train: 1 of 2 members fit"),
            id="what its gang lacks",
        ),
        pytest.param(
            Wait("gang ml/train: 1 of 2 pods exist"),
            ("p", NOT_ASKED, "gang ml/train: 1 of 2 pods exist"),
            id="the pods of its gang",
        ),
        pytest.param(
            None,
            (
                "p",
                NOT_ASKED,
                f"scheduling gate {GATE}: this extender removes it when all pods of the gang have places",
            ),
            id="the end of its gate",
        ),
    ],
)
def test_what_a_pod_behind_a_gate_waits_for(wait: Wait | None, expected: tuple[str, str, str]) -> None:
    """Though a node would take it."""
    there = running(*whole_node("n", None), GATED)
    explainer = Explainer(there, there.extender.record, there.config, wait_of=lambda _: wait)
    found = WaitingPods(there, there.extender.record, explainer, Clock())
    assert told(found) == [expected]
    assert found.reasons() == {expected[1]: 1}


def test_the_highest_priority_comes_first_then_who_waits_longest() -> None:
    pods = []
    for name, priority, hour in (("late", 0, 3), ("early", 0, 1), ("urgent", 9, 5)):
        pods.append(pod(name, {WHOLE: "1"}, priority=priority))
        pods[-1]["metadata"]["creationTimestamp"] = f"2026-11-01T0{hour}:00:00Z"
    names = [name for name, _, _ in told(board(running(*whole_node("n", None), *pods)))]
    assert names == ["urgent", "early", "late"]


WISHES = st.sampled_from(
    [
        {},
        *(
            {ANNOTATION + key: value}
            for key, value in (("model", "H100"), ("model", "A100"), ("min-memory", "99Gi"))
        ),
    ]
)
ASKING = st.tuples(st.sampled_from([{WHOLE: "1"}, {WHOLE: "9"}, {SHARE: "90000"}]), WISHES, st.integers(0, 1))


@given(asking=st.lists(ASKING, min_size=2, max_size=5))
def test_a_pod_is_told_the_same_beside_others_as_alone(asking: list[tuple[Json, Json, int]]) -> None:
    """No pod has the reason of another one that only looks alike."""
    nodes = share_node("n", 1)
    pods = [
        pod(f"p{i}", limits, annotations=wishes, priority=priority)
        for i, (limits, wishes, priority) in enumerate(asking)
    ]
    alone = [line for each in pods for line in told(board(running(*nodes, each)))]
    assert sorted(told(board(running(*nodes, *pods)))) == sorted(alone)


def test_a_pod_has_no_reason_of_an_earlier_one_of_its_name() -> None:
    there = running(*whole_node("n", None), pod("p", {WHOLE: "9"}))
    waiting = board(there)
    assert waiting.reasons() == {GPUS: 1}
    again = pod("p", {SHARE: "8Gi"})
    again["metadata"]["uid"] = "another"
    there.waiting = running(again).waiting
    assert waiting.reasons() == {"pod's GPU request is invalid": 1}


def test_reasons_are_counted() -> None:
    pods = [pod(f"p{i}", {WHOLE: "9"}) for i in range(3)]
    there = running(*whole_node("n", None), *pods, pod("bad", {SHARE: "8Gi"}))
    for each in pods[:2]:
        ask(there.extender, each, ["n"])
    reasons = board(there).reasons()
    assert reasons == {GPUS: 3, "pod's GPU request is invalid": 1}


NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


def since(name: str, seconds: float, **more: Any) -> Json:
    """A pod that was created so many seconds before NOW, and that fits nowhere."""
    asking = pod(name, {WHOLE: "9"}, **more)
    asking["metadata"]["creationTimestamp"] = f"{NOW - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
    return asking


def longest(*pods: Json, most: int = 50) -> list[LongWait]:
    return board(running(*whole_node("n", None), *pods)).longest(NOW.timestamp(), most)


def test_pods_that_have_waited_for_a_minute_are_listed_the_longest_first() -> None:
    found = longest(since("new", 59), since("minute", 60), since("hours", 7200), pod("unknown", {WHOLE: "9"}))
    assert found == [LongWait("default", "hours", GPUS, 7200), LongWait("default", "minute", GPUS, 60)]


def test_a_gated_pod_is_not_listed_because_no_scheduler_may_place_it() -> None:
    gated = since("gated", 7200, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    assert [each.name for each in longest(gated, since("free", 300))] == ["free"]


def leaving(name: str, **more: Any) -> Json:
    """A pod that was deleted, and that a finalizer keeps."""
    found = since(name, 7200, **more)
    found["metadata"] |= {"deletionTimestamp": "2026-11-01T11:00:00Z", "finalizers": ["example.com/keep"]}
    found["spec"]["containers"][0]["resources"]["limits"] = {WHOLE: "1"}
    return found


def test_a_pod_that_is_being_deleted_is_shown_as_such_and_counted_nowhere() -> None:
    found = board(running(*whole_node("n", None), leaving("leaving"), since("waits", 300)))
    assert ("leaving", BEING_DELETED, BEING_DELETED) in told(found)
    assert [line["state"] for line in found.lines()] == ["Terminating", "Waiting"]
    assert found.reasons() == {GPUS: 1}
    assert [each.name for each in found.longest(NOW.timestamp(), 9)] == ["waits"]
    assert sum(found.by_workload(9).values()) == 1


def test_the_longest_wait_has_the_reason_of_its_nearest_node_though_many_come_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scheduler_ext.explain.waiting.MOST_LINES", 2)
    t4 = free_node("t4", 4, model="T4")
    urgent = [since(f"urgent{i}", 60, priority=100) for i in range(3)]
    old = since("old", 7200, annotations={ANNOTATION + "model": "A100"})
    there = running(*whole_node("n", None), *t4, *urgent, old)
    ask(there.extender, old, ["t4"])
    found = board(there)
    assert [line["name"] for line in found.lines()] == ["urgent0", "urgent1"]
    assert found.longest(NOW.timestamp(), 1) == [LongWait("default", "old", GPUS, 7200)]
    assert [line["name"] for line in found.lines()] == ["urgent0", "urgent1"]


def test_the_cause_is_shown_and_not_a_reason_of_nearly_all_nodes() -> None:
    others = [each for name in ("t4-1", "t4-2", "t4-3") for each in free_node(name, 2, model="T4")]
    sick = gpu(1, "GPU-sick", health={"state": "Unhealthy", "reason": "XID 79"})
    a100 = [gpu_node("a100", [gpu(0, "GPU-well"), sick]), node("a100", {WHOLE: "1"})]
    wants = pod("wants", {WHOLE: "2"}, annotations={ANNOTATION + "model": "A100"})
    found = board(running(*others, *a100, wants))
    (line,) = found.lines()
    assert (line["reason"], line["nearest"]) == (
        "node(s) had unhealthy GPUs",
        "a100 GPU 1 is unhealthy (XID 79)",
    )
    other = "node(s) didn't match the requested GPU model"
    assert line["commonest"] == {"reason": other, "nodes": 3, "of": 4}
    assert found.reasons() == {"node(s) had unhealthy GPUs": 1}


def test_a_scrape_waits_for_little_and_who_is_not_looked_into_has_the_reason_of_most_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    slow = Slow(clock, monkeypatch, seconds=0.1)
    pods = [pod(f"p{i}", {WHOLE: str(9 + i)}) for i in range(3)]
    there = running(*whole_node("n", None), *pods)
    ask(there.extender, pods[1], ["n"])
    assert board(there, clock).reasons() == {GPUS: 2, NOT_ASKED: 1}
    assert slow.looked == ["p0"]


def test_the_rest_of_a_request_with_an_unreadable_amount_is_shown() -> None:
    asking = pod("p", {WHOLE: "2", SHARE: "8Gi"})
    asking["metadata"]["creationTimestamp"] = "2026-11-01T01:00:00Z"
    (line,) = board(running(*whole_node("n", None), asking)).lines()
    assert line["asks"] == "2 × nvidia.com/gpu, and something that cannot be read"
    assert (line["reason"], line["since"]) == ("pod's GPU request is invalid", "2026-11-01T01:00:00.000000Z")
    assert line["nearest"].startswith(
        "container 'main': 'gpu.scheduler-ext.io/memory-mib': quantity '8Gi' is"
    )


class Slow:
    """Examines pods as the explainer does, and takes so many seconds of the clock for each."""

    def __init__(self, clock: Clock, monkeypatch: pytest.MonkeyPatch, seconds: float = 1.0) -> None:
        self.looked: list[str] = []
        of_waiting = Explainer.of_waiting

        def slow(explainer: Explainer, waiting: Any) -> dict[str, Any]:
            self.looked.append(waiting.pod.name)
            clock.now += seconds
            return of_waiting(explainer, waiting)

        monkeypatch.setattr(Explainer, "of_waiting", slow)


def test_one_that_cannot_be_looked_into_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    of_waiting = Explainer.of_waiting

    def failing(explainer: Explainer, waiting: Any) -> dict[str, Any]:
        if waiting.pod.name == "odd":
            raise ValueError("unexpected")
        return of_waiting(explainer, waiting)

    monkeypatch.setattr(Explainer, "of_waiting", failing)
    found = board(running(*whole_node("n", None), pod("odd", {WHOLE: "8"}), pod("p", {WHOLE: "9"})))
    assert {line["name"]: line["nearest"] for line in found.lines()} == {
        "odd": None,
        "p": "n has 1 of 9 nvidia.com/gpu free",
    }


def test_a_scheduler_that_does_not_ask_is_reported_until_it_does() -> None:
    stranger = pod("p", {WHOLE: "1"}, schedulerName="batch")
    there = running(*whole_node("n", None), stranger)
    told = "its schedulerName is batch, which has not asked about it; the extender serves gpu-scheduler"
    assert [line["nearest"] for line in board(there).lines()] == [told]
    assert told in there.explainer().of_name("default", "p")["warnings"]
    ask(there.extender, stranger, ["n"])
    assert told not in there.explainer().of_name("default", "p")["warnings"]
    assert [line["nearest"] for line in board(there).lines()] != [told]


def test_pods_alike_are_looked_into_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    slow = Slow(clock, monkeypatch)
    alike = [pod(f"p{i:02}", {WHOLE: "9"}) for i in range(40)]
    lines = board(running(*whole_node("n", None), *alike), clock).lines()
    assert len(lines) == 40
    assert {line["nearest"] for line in lines} == {"n has 1 of 9 nvidia.com/gpu free"}
    assert slow.looked == ["p00"]


def test_little_time_goes_into_it_and_every_kind_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    slow = Slow(clock, monkeypatch)
    pods = [pod(f"p{i}", {WHOLE: str(10 + i)}, priority=9 - i) for i in range(3)]
    found = board(running(*whole_node("n", None), *pods), clock)
    assert [line["nearest"] is None for line in found.lines()] == [False, True, True]
    # A second is a twentieth of the next twenty, during which no pod is examined.
    clock.now += 19.0
    found.lines()
    assert slow.looked == ["p0"]
    for count, name in ((2, "p1"), (3, "p2"), (4, "p0"), (5, "p1")):
        clock.now += 21.0
        lines = found.lines()
        assert (len(slow.looked), slow.looked[-1]) == (count, name)
    assert [line["nearest"] is None for line in lines] == [False] * 3


def test_a_pod_that_no_longer_waits_is_gone_at_the_next_look() -> None:
    clock = Clock()
    there = running(*whole_node("n", None), pod("a", {WHOLE: "9"}), pod("b", {WHOLE: "8"}))
    found = board(there, clock)
    assert [name for name, _, _ in told(found)] == ["a", "b"]
    there.waiting = [each for each in there.waiting if each.pod.name == "b"]
    assert [name for name, _, _ in told(found)] == ["a", "b"]
    clock.now += 2.0
    assert [name for name, _, _ in told(found)] == ["b"]
    assert len(found._diagnoses) == 1


def owned(name: str, kind: str, owner: str, **labels: str) -> Json:
    asking = pod(name, {WHOLE: "9"})
    reference = {"kind": kind, "name": owner, "uid": "u", "controller": True}
    asking["metadata"] |= {"ownerReferences": [reference], "labels": labels}
    return asking


BY_WORKLOAD = [
    *(owned(f"a{i}", "ReplicaSet", "web-5d9", **{"pod-template-hash": "5d9"}) for i in range(3)),
    *(owned(f"b{i}", "Job", "train") for i in range(2)),
    owned("c", "ReplicaSet", "bare"),
    *(pod(f"d{i}", {WHOLE: "9"}) for i in range(2)),
    pod("gated", {WHOLE: "9"}, schedulingGates=[{"name": "a/b"}]),
]


def test_waiting_pods_are_counted_by_their_workload_and_the_smaller_ones_together() -> None:
    found = board(running(*whole_node("n", None), *BY_WORKLOAD))
    assert found.by_workload(10) == {
        ("default", "Deployment", "web"): 3,
        ("default", "Job", "train"): 2,
        ("default", "ReplicaSet", "bare"): 1,
        ("default", "", ""): 2,
    }
    assert found.by_workload(2) == {
        ("default", "Deployment", "web"): 3,
        ("default", "", ""): 2,
        ("_others", "", ""): 3,
    }
