"""The writes to the cluster: author, rate, and refused writes."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from scheduler_ext.cluster.client.retry import Backoff, Retry
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.events import event_recorder as event_recorder_module
from scheduler_ext.cluster.events.event_recorder import NUDGE_ANNOTATION, EventRecorder, event_body
from scheduler_ext.wire.times import seconds
from tests.cluster.api.api_faults import Refuse, Reset
from tests.cluster.api.api_paths import NODES
from tests.cluster.api.api_requests import Request, writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.kube_objects import node

EVENTS = "/apis/events.k8s.io/v1/events"


class Writing:
    """EventRecorder to a server that has the nodes a, b and c."""

    def __init__(self, server: ApiServer, transport: Transport) -> None:
        self.server = server
        self.transport = transport
        self.active = True
        self.recorder = EventRecorder(transport, lambda: self.active)
        server.store.put_all(NODES, [node(name) for name in "abc"])

    def waits(self, backoff: Backoff) -> None:
        """Wait for this event before a nudge is retried."""
        self.recorder._nudge_retry = Retry(self.transport.server, backoff, probes=False)

    def written(self, count: int, path: str = "") -> list[Request]:
        """The arrived writes, once there are so many and none is pending."""
        found = self.server.log.wait_for(writes(path), count)
        eventually(lambda: not self.recorder._nudges and not self.recorder._events)
        assert len(found) == count
        return found

    def paths(self, count: int) -> list[str]:
        return [request.path.rpartition("/")[2] for request in self.written(count)]


@pytest.fixture
def writing(server: ApiServer, transport: Transport) -> Iterator[Writing]:
    built = Writing(server, transport)
    yield built
    server.faults.lift()
    built.recorder.stop()
    if built.recorder.is_alive:
        built.recorder.join(60)
    assert not built.recorder.is_alive


def test_a_nudge_is_an_annotation_of_the_time(writing: Writing) -> None:
    writing.recorder.start()
    writing.recorder.nudge("b")
    (request,) = writing.written(1)
    assert (request.method, request.path) == ("PATCH", f"{NODES}/b")
    assert request.headers["content-type"] == "application/merge-patch+json"
    annotations = writing.server.store.get(NODES, "b").object()["metadata"]["annotations"]
    assert list(annotations) == [NUDGE_ANNOTATION]
    stamp = seconds(annotations[NUDGE_ANNOTATION])
    assert stamp is not None
    assert abs(stamp - request.at) < 60
    eventually(lambda: writing.recorder.nudges.total() == 1)


def test_nudges_that_wait_for_one_node_are_one(writing: Writing) -> None:
    for name in "aabbab":
        writing.recorder.nudge(name)
    writing.recorder.start()
    assert writing.paths(2) == ["a", "b"]
    writing.recorder.nudge("a")
    assert writing.paths(3) == ["a", "b", "a"]


def test_a_standby_writes_nothing(writing: Writing) -> None:
    writing.active = False
    writing.recorder.start()
    writing.recorder.nudge("a")
    writing.recorder.warn("a", None, "Reason", "note")
    writing.active = True
    writing.recorder.nudge("b")
    assert writing.paths(1) == ["b"]


def test_an_event_is_about_the_node(writing: Writing) -> None:
    writing.recorder.start()
    writing.recorder.warn("a", "uid-a", "GPUReportRefused", "GPUNode a: went back" + "." * 2000)
    writing.recorder.warn("b", None, "GPUReportRefused", "note")
    first, second = (request.json() for request in writing.written(2, EVENTS))
    assert first["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "uid-a"}
    assert (first["type"], first["reason"], first["action"]) == ("Warning", "GPUReportRefused", "ReadReport")
    assert first["note"].startswith("GPUNode a: went back")
    # Required fields of every event in events.k8s.io/v1.
    assert len(first["note"]) <= 1024
    assert seconds(first["eventTime"]) is not None
    assert first["metadata"] == {"generateName": "a-", "namespace": "default"}
    assert "/" in first["reportingController"]
    assert first["reportingInstance"]
    # kubectl describe looks for a node without a uid by its name.
    assert second["regarding"]["uid"] == "b"


def test_an_event_about_a_node_is_written_once_for_each_reason(writing: Writing) -> None:
    writing.recorder.start()
    said = (("a", "One", "1"), ("a", "One", "1"), ("a", "One", "2"), ("a", "Two", "1"), ("b", "One", "1"))
    for name, reason, note in (*said, *said):
        writing.recorder.warn(name, None, reason, note)
    found = [request.json() for request in writing.written(3)]
    assert [(event["regarding"]["name"], event["reason"], event["note"]) for event in found] == [
        ("a", "One", "1"),
        ("a", "Two", "1"),
        ("b", "One", "1"),
    ]


def test_a_nudge_that_is_refused_is_tried_until_it_is_written(
    writing: Writing, caplog: pytest.LogCaptureFixture
) -> None:
    """The right to write may be granted at any time, and a starting server may not know of it."""
    caplog.set_level(logging.INFO, logger=event_recorder_module.__name__)
    writing.waits(Backoff(0.05, 0.05))
    refusal = writing.server.faults.place(Refuse(403, "Forbidden", "may not"), writes(NODES), times=None)
    writing.recorder.start()
    writing.recorder.nudge("a")
    eventually(lambda: writing.recorder.nudge_failures["refused"] >= 3)
    # Events need another right.
    writing.recorder.warn("a", None, "Reason", "note")
    writing.server.log.wait_for(writes(EVENTS))
    assert writing.recorder.nudges.total() == 0
    refusal.lift()
    eventually(lambda: writing.recorder.nudges.total() == 1)
    assert b"inventory-changed" in writing.server.store.get(NODES, "a").body
    # The recorder counts before it logs.
    eventually(lambda: len(caplog.records) == 2)
    refused, again = (record.getMessage() for record in caplog.records)
    assert refused.startswith("node a is not annotated, trying again for 300 s; until then refused pods may")
    assert "may not" in refused
    assert again == "nodes are annotated again"
    assert dict(writing.recorder.nudge_failures) == {"refused": refusal.hits}


def test_a_nudge_on_a_node_that_is_gone_is_not_needed(writing: Writing) -> None:
    writing.server.store.delete(NODES, "a")
    writing.recorder.start()
    writing.recorder.nudge("a")
    writing.recorder.nudge("b")
    assert writing.paths(2) == ["a", "b"]
    eventually(lambda: writing.recorder.nudges.total() == 1)
    assert dict(writing.recorder.nudge_failures) == {}


def test_unsent_events_do_not_count_as_written(writing: Writing, caplog: pytest.LogCaptureFixture) -> None:
    retry = Retry(writing.transport.server, Backoff(600.0, 600.0), probes=False)
    writing.recorder._event_retries["default"] = retry
    writing.server.faults.place(Refuse(403, "Forbidden", "may not"), writes(EVENTS), times=None)
    for name in "abc":
        writing.recorder.warn(name, None, "Reason", "note")
    writing.recorder.start()
    eventually(lambda: writing.recorder.events.total() == 3)
    assert writing.server.log.count(writes(EVENTS)) == 1
    assert +writing.recorder.events == {"refused": 3}
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        pytest.param(Refuse(422, "Invalid", "note: Too long"), "refused", id="refused for good"),
        pytest.param(Refuse(503), "failed", id="an overloaded server"),
        pytest.param(Reset(), "failed", id="no answer"),
    ],
)
def test_every_event_counts_once_as_what_became_of_it(
    writing: Writing, fault: Refuse | Reset, word: str
) -> None:
    writing.server.faults.place(fault, writes(EVENTS))
    for name in "abc":
        writing.recorder.warn(name, None, "Reason", "note")
    writing.recorder.start()
    eventually(lambda: writing.recorder.events.total() == 3)
    assert +writing.recorder.events == {word: 1, "written": 2}
    assert len(writing.server.store.objects(EVENTS)) == 2


def test_a_nudge_is_tried_until_pods_would_be_looked_at_anyway(writing: Writing) -> None:
    waits_s = iter([0.05, 0.05, event_recorder_module._LET_GO_S + 1])

    class Longer(Backoff):
        """The third wait exceeds the wait of pods."""

        def wait_s(self, retry_after_s: float | None = None) -> float:
            return next(waits_s)

    writing.waits(Longer())
    writing.server.faults.place(Refuse(503), writes(NODES), times=None)
    writing.recorder.start()
    writing.recorder.nudge("a")
    eventually(lambda: writing.recorder.nudge_failures["dropped"] == 1)
    assert not writing.recorder._nudges
    assert dict(writing.recorder.nudge_failures) == {"failed": 3, "dropped": 1}
    writing.recorder.warn("a", None, "Reason", "note")
    writing.server.log.wait_for(writes(EVENTS))
    assert writing.server.log.count(writes(NODES)) == 3


def test_an_extender_that_lost_the_lease_stops_trying(writing: Writing) -> None:
    class Leaves(Backoff):
        def wait_s(self, retry_after_s: float | None = None) -> float:
            writing.active = False
            return 0.05

    writing.waits(Leaves())
    writing.server.faults.place(Refuse(503), writes(NODES))
    writing.recorder.start()
    writing.recorder.nudge("a")
    eventually(lambda: not writing.active and not writing.recorder._nudges)
    # One thread writes both: an Event in the store means that earlier writes are done.
    writing.active = True
    writing.recorder.warn("a", None, "Reason", "note")
    writing.server.log.wait_for(writes(EVENTS))
    assert writing.server.log.count(writes(NODES)) == 1


def test_no_more_than_so_many_wait(writing: Writing) -> None:
    for number in range(250):
        writing.recorder.nudge(f"n{number}")
        writing.recorder.warn(f"n{number}", None, "Reason", "note")
    assert (len(writing.recorder._nudges), len(writing.recorder._events)) == (100, 100)


def test_a_note_has_no_hidden_characters() -> None:
    """Terminals obey them, and kubectl prints notes as they are."""
    event = event_body("Normal", "R", "A", "model a\u202eb\x1b[2J", {"kind": "Node", "name": "n"})
    assert event["note"] == "model a\\u202eb\\x1b[2J"
