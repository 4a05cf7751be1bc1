"""Events: where a pod was placed and why."""

from __future__ import annotations

import json
import time

import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.events import event_recorder as event_recorder_module
from scheduler_ext.cluster.events.event_recorder import EventRecorder
from tests.cluster.api.api_paths import PODS
from tests.cluster.api.api_requests import writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.cluster.living import Living
from tests.kube_objects import Json, gpu, names_body, pod

WHOLE = "nvidia.com/gpu"
EVENTS = "/apis/events.k8s.io/v1/events"
pytestmark = pytest.mark.usefixtures("impatient")


def decide(living: Living, asking: Json, names: str = "ab") -> list[str]:
    """kube-scheduler's requests for a pod before it is bound."""
    extender = living.extender
    answer = extender.filter(names_body(asking, list(names)), time.monotonic() + 60)
    extender.record.answered("filter", answer)
    passed: list[str] = json.loads(answer.body)["NodeNames"]
    if len(passed) > 1:
        answer = extender.prioritize(names_body(asking, passed), time.monotonic() + 60)
        extender.record.answered("prioritize", answer)
    return passed


def bind(living: Living, asking: Json, where: str, **annotations: str) -> None:
    asking["spec"]["nodeName"] = where
    asking["metadata"]["annotations"] = annotations
    living.server.store.put(PODS, asking)


def events(living: Living, count: int) -> list[Json]:
    return [request.json() for request in living.server.log.wait_for(writes(EVENTS), count)][:count]


def test_a_placed_pod_gets_an_event_with_place_and_reasons(living: Living) -> None:
    living.report("b", *(gpu(i) for i in range(2)))
    living.start()
    living.fits("ab")
    asking = pod("p", {WHOLE: "1"})
    living.server.store.put(PODS, pod("p", {WHOLE: "1"}))
    assert decide(living, asking) == ["a", "b"]
    found = living.extender.record.of("default", "p")
    assert found is not None
    best = found.candidates[0]
    bind(living, asking, best.node)
    (event,) = events(living, 1)
    assert event["metadata"] == {"generateName": "p-", "namespace": "default"}
    assert (event["type"], event["reason"], event["action"]) == ("Normal", "GPUPlacement", "Binding")
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "p",
        "uid": "uid-p",
    }
    assert event["related"] == {"apiVersion": "v1", "kind": "Node", "name": best.node}
    reasons = ", ".join(f"{term.name} {term.value:.2f} (mean {term.mean:.2f})" for term in best.strongest)
    assert best.strongest
    assert event["note"] == (
        f"on {best.node}, GPUs picked by the device plugin; best of 2 that fitted: {reasons}"
    )
    found = living.extender.record.of("default", "p")
    assert found is not None
    assert found.bound is not None
    assert (found.bound.kind, found.bound.node) == ("seen", best.node)


def test_one_event_for_one_placement_whatever_the_pod_does_afterwards(living: Living) -> None:
    living.start()
    living.fits("ab")
    asking = pod("p", {WHOLE: "1"})
    decide(living, asking)
    bind(living, asking, "b")
    events(living, 1)
    for phase in ("Running", "Running"):
        asking["status"] = {"phase": phase}
        living.server.store.put(PODS, asking)
    last = pod("q", {WHOLE: "1"})
    decide(living, last, "a")
    bind(living, last, "a")
    told = [event["regarding"]["name"] for event in events(living, 2)]
    assert told == ["p", "q"]


def test_too_many_at_once_are_dropped_and_counted(
    server: ApiServer, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The Events are about one moment, however long their writes take.
    monkeypatch.setattr(event_recorder_module, "_POD_EVENTS_PER_S", 0.0)
    recorder = EventRecorder(transport, lambda: True)
    metadata = {"generateName": "p-", "namespace": "default"}
    for i in range(80):
        recorder.write(lambda i=i: {"metadata": metadata, "note": str(i)})  # type: ignore[misc]
    recorder.start()
    found = server.log.wait_for(writes(EVENTS), 50)
    eventually(lambda: recorder.events["written"] == 50)
    recorder.stop()
    assert [request.json()["note"] for request in found] == [str(i) for i in range(50)]
    assert recorder.events == {"written": 50, "dropped": 30}
