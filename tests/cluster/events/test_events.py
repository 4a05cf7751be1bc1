"""Events: where a pod was placed and why, nodes with old reports, memory used by unknown processes."""

from __future__ import annotations

import json
import time

import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.events import event_recorder as event_recorder_module
from scheduler_ext.cluster.events.event_recorder import EventRecorder
from scheduler_ext.cluster.events.inventory_events import InventoryEvents
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.node.node import NodeInfo
from tests.cluster.api.api_paths import PODS
from tests.cluster.api.api_requests import writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.cluster.living import Living
from tests.core.reported import NAMES, device
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
    assert event["regarding"] | {"uid": ""} == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "p",
        "uid": "",
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
    for i in range(80):
        recorder.write(lambda i=i: placed(i))  # type: ignore[misc]
    recorder.start()
    found = server.log.wait_for(writes(EVENTS), 50)
    eventually(lambda: recorder.events["written"] == 50)
    recorder.stop()
    assert [request.json()["note"] for request in found] == [str(i) for i in range(50)]
    assert recorder.events == {"written": 50, "dropped": 30}


def placed(number: int) -> Json:
    return {"metadata": {"generateName": "p-", "namespace": "default"}, "note": str(number)}


class TestNodesWithoutAnAgent:
    def told(self, why_not: str | None) -> tuple[InventoryEvents, list[tuple[str, str, str]]]:
        told: list[tuple[str, str, str]] = []

        def warn(name: str, uid: str | None, reason: str, note: str, about: str) -> None:
            told.append((name, reason, note))

        return InventoryEvents(warn, NAMES, lambda: why_not), told

    def test_it_is_not_said_to_have_an_old_report_as_well(self) -> None:
        found, told = self.told("the extender may not")
        found.follow({"n": NodeInfo("n", freshness="Missing")}, {"n"})
        assert [(name, reason) for name, reason, _ in told] == [("n", "GPUNodeUnlabelled")]
        found.follow({"n": NodeInfo("n", freshness="Missing")})
        assert [reason for _, reason, _ in told[1:]] == ["GPUInventoryStale"], "its agent has yet to report"

    def test_nothing_is_said_while_the_extender_labels_it(self) -> None:
        found, told = self.told(None)
        found.follow({"n": NodeInfo("n")}, {"n"})
        assert told == []

    @pytest.mark.parametrize(
        ("allowed", "takes"),
        [
            pytest.param(False, "it takes no pod with GPUs after inventory.missingAfter", id="refuse"),
            pytest.param(True, "it takes whole GPUs and MIG instances by its allocatable alone", id="allow"),
        ],
    )
    def test_the_note_has_the_effect_and_the_command(self, allowed: bool, takes: str) -> None:
        found, told = self.told("the extender may not")
        found.follow({"n": NodeInfo("n", by_allocatable=allowed)}, {"n"})
        ((_, _, note),) = told
        command = "kubectl label node n gpu.scheduler-ext.io/agent=true; the extender may not"
        assert note.endswith(f"{takes}: {command}")


def node_in(state: str, name: str = "n") -> NodeInfo:
    return NodeInfo(name, report=Report((device(0),)), freshness=state)


@pytest.mark.parametrize(
    ("info", "note"),
    [
        pytest.param(
            NodeInfo("n", freshness="Missing"),
            "no agent has reported on it: it takes no pod with GPUs; see why no agent reports on n: `kubectl "
            "-n gpu-scheduler-agent get pods --field-selector spec.nodeName=n`, and the log of that pod",
            id="no agent ever reported",
        ),
        pytest.param(
            NodeInfo("n", freshness="Missing", share_node=True, by_allocatable=True),
            "no agent has reported on it: it takes no memory share; see why no agent reports on n: `kubectl "
            "-n gpu-scheduler-agent get pods --field-selector spec.nodeName=n`, and the log of that pod",
            id="a node for memory shares",
        ),
        pytest.param(
            NodeInfo("n", report=Report((device(0),), reported_at="2026-11-03T10:00:00Z"), freshness="Stale"),
            "its last report of 2026-11-03T10:00:00Z is too old: it takes no pod with GPUs; see why no agent "
            "reports on n: `kubectl -n gpu-scheduler-agent get pods --field-selector spec.nodeName=n`, and "
            "the log of that pod",
            id="an agent fell silent",
        ),
    ],
)
def test_a_node_without_a_fresh_report_has_an_event_with_the_cause_and_the_step(
    info: NodeInfo, note: str
) -> None:
    told: list[str] = []
    InventoryEvents(lambda name, uid, reason, note, about: told.append(note), NAMES).follow({"n": info})
    assert told == [note]


def test_a_recovered_node_is_reported_no_more() -> None:
    told: list[str] = []
    found = InventoryEvents(lambda name, uid, reason, note, about: told.append(name), NAMES)
    stale = node_in("Stale")
    found.follow({"n": stale})
    found.follow({})
    assert told == ["n", "n"]
    found.follow({"n": node_in("Fresh")})
    found.follow({"n": stale})
    found.follow({"n": None})
    assert told == ["n"] * 3


def test_many_nodes_in_trouble_are_one_event() -> None:
    told: list[tuple[str, str]] = []
    found = InventoryEvents(lambda name, uid, reason, note, about: told.append((name, note)), NAMES)
    found.follow({f"n{i}": node_in("Missing", f"n{i}") for i in range(50)})
    ((name, note),) = told
    assert name == "n0"
    assert note.endswith("; 49 more nodes have the same problem")
