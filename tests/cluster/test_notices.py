"""What is written to the cluster, by whom, how often, and what happens when it may not be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler_ext.cluster.notices import NUDGE_ANNOTATION, Notices
from scheduler_ext.cluster.transport import Transport
from scheduler_ext.wire.times import seconds
from tests.cluster.api_entry import Entry
from tests.cluster.api_faults import Hang, Refuse, Reset
from tests.cluster.api_paths import NODES
from tests.cluster.api_requests import Request, writes
from tests.cluster.api_server import ApiServer
from tests.cluster.following import eventually
from tests.kube_objects import node

EVENTS = "/apis/events.k8s.io/v1/events"


class Writing:
    """Notices to a server that has the nodes a, b and c."""

    def __init__(self, server: ApiServer, transport: Transport) -> None:
        self.server = server
        self.active = True
        self.notices = Notices(transport, lambda: self.active)
        server.store.put_all(NODES, [node(name) for name in "abc"])

    def written(self, count: int, path: str = "") -> list[Request]:
        """The writes that arrived, once there are so many, and nothing is left to write."""
        found = self.server.log.wait_for(writes(path), count)
        eventually(lambda: not self.notices._nudges and not self.notices._events)
        assert len(found) == count
        return found

    def kept(self, path: str) -> list[Entry]:
        """What the server has now."""
        with self.server.store.lock:
            return self.server.store.collection(path).current()

    def paths(self, count: int) -> list[str]:
        return [request.path.rpartition("/")[2] for request in self.written(count)]


@pytest.fixture
def writing(server: ApiServer, transport: Transport) -> Iterator[Writing]:
    built = Writing(server, transport)
    yield built
    server.faults.lift()
    built.notices.stop()
    if built.notices._thread.is_alive():
        built.notices._thread.join(5)
    assert not built.notices._thread.is_alive()


def test_a_nudge_is_an_annotation_of_the_time(writing: Writing) -> None:
    writing.notices.start()
    writing.notices.nudge("b")
    (request,) = writing.written(1)
    assert (request.method, request.path) == ("PATCH", f"{NODES}/b")
    assert request.headers["content-type"] == "application/merge-patch+json"
    annotations = writing.server.store.get(NODES, "b").object()["metadata"]["annotations"]
    assert list(annotations) == [NUDGE_ANNOTATION]
    stamp = seconds(annotations[NUDGE_ANNOTATION])
    assert stamp is not None
    assert abs(stamp - request.at) < 60
    eventually(lambda: writing.notices.nudges == 1)


def test_nudges_that_wait_for_one_node_are_one(writing: Writing) -> None:
    for name in "aabbab":
        writing.notices.nudge(name)
    writing.notices.start()
    assert writing.paths(2) == ["a", "b"]
    writing.notices.nudge("a")
    assert writing.paths(3) == ["a", "b", "a"]


def test_no_more_than_so_many_wait(writing: Writing) -> None:
    for number in range(250):
        writing.notices.nudge(f"n{number}")
        writing.notices.warn(f"n{number}", None, "Reason", "note")
    assert (len(writing.notices._nudges), len(writing.notices._events)) == (100, 100)


def test_a_standby_writes_nothing(writing: Writing) -> None:
    writing.active = False
    writing.notices.start()
    writing.notices.nudge("a")
    writing.notices.warn("a", None, "Reason", "note")
    writing.active = True
    writing.notices.nudge("b")
    assert writing.paths(1) == ["b"]


def test_an_event_is_about_the_node(writing: Writing) -> None:
    writing.notices.start()
    writing.notices.warn("a", "uid-a", "GPUReportRefused", "GPUNode a: went back" + "." * 2000)
    writing.notices.warn("b", None, "GPUReportRefused", "note")
    first, second = (request.json() for request in writing.written(2, EVENTS))
    assert first["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "uid-a"}
    assert (first["type"], first["reason"], first["action"]) == ("Warning", "GPUReportRefused", "ReadReport")
    assert first["note"].startswith("GPUNode a: went back")
    # What events.k8s.io/v1 demands of every event.
    assert len(first["note"]) <= 1024
    assert seconds(first["eventTime"]) is not None
    assert first["metadata"] == {"generateName": "a-", "namespace": "default"}
    assert "/" in first["reportingController"]
    assert first["reportingInstance"]
    eventually(lambda: len(writing.kept(EVENTS)) == 2)
    assert [one.name.rstrip("0123456789") for one in writing.kept(EVENTS)] == ["a-", "b-"]
    # kubectl describe looks for a node without a uid by its name.
    assert second["regarding"]["uid"] == "b"


def test_of_a_node_the_same_is_said_once_in_whatever_words(writing: Writing) -> None:
    writing.notices.start()
    said = (("a", "One", "1"), ("a", "One", "1"), ("a", "One", "2"), ("a", "Two", "1"), ("b", "One", "1"))
    for name, reason, note in (*said, *said):
        writing.notices.warn(name, None, reason, note)
    found = [request.json() for request in writing.written(3)]
    assert [(event["regarding"]["name"], event["reason"], event["note"]) for event in found] == [
        ("a", "One", "1"),
        ("a", "Two", "1"),
        ("b", "One", "1"),
    ]


def test_who_may_not_write_does_not_ask_again(writing: Writing, caplog: pytest.LogCaptureFixture) -> None:
    writing.server.faults.place(Refuse(403, "Forbidden", "may not"), writes(NODES), times=None)
    writing.notices.start()
    writing.notices.nudge("a")
    eventually(lambda: "may not write nodes, will not for 300 s" in caplog.text)
    writing.notices.nudge("b")
    # Events are another right.
    writing.notices.warn("a", None, "Reason", "note")
    writing.written(1, EVENTS)
    assert writing.server.log.count(writes(NODES)) == 1
    assert writing.notices.nudges == 0


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Refuse(404, "NotFound", "no such node"), id="a node that is gone"),
        pytest.param(Refuse(409, "Conflict", "again"), id="a conflict"),
        pytest.param(Refuse(500, "InternalError", "etcd"), id="a broken server"),
        pytest.param(Reset(), id="a connection that is reset"),
    ],
)
def test_what_fails_is_let_go(
    writing: Writing, fault: Refuse | Reset, caplog: pytest.LogCaptureFixture
) -> None:
    writing.server.faults.place(fault)
    writing.notices.start()
    writing.notices.nudge("a")
    writing.notices.nudge("b")
    assert writing.paths(2) == ["a", "b"]
    eventually(lambda: writing.notices.nudges == 1)
    assert len(caplog.records) == 1


def test_a_server_that_hangs_holds_nobody_up(writing: Writing) -> None:
    hanging = writing.server.faults.place(Hang())
    writing.notices.start()
    writing.notices.nudge("a")
    writing.server.log.wait_for(writes(NODES))
    writing.notices.nudge("b")
    writing.notices.warn("c", None, "Reason", "note")
    assert writing.server.log.count(writes()) == 1
    hanging.lift()
    writing.written(3)
