"""The calls of a bind: their effects and their results, after any failure."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.binding.outcome import Done, Outcome, Refused, Unknown, Unsent
from scheduler_ext.cluster import binding_calls as bindings_module
from scheduler_ext.cluster.binding_calls import Bindings
from scheduler_ext.core.cache.intent import Intent, Reservation
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.request.request import GpuRequest, ShareRequest
from scheduler_ext.wire.binding import binding_body
from scheduler_ext.wire.kube import ObjectMeta
from tests.cluster.api.api_faults import After, AnswerFault, Drip, Hang, Refuse, Reset
from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_paths import GPU_RESERVATIONS, PODS
from tests.cluster.api.api_requests import lists
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.kube_objects import SHARE, Json, pod

ANNOTATIONS = {"devices.gpu.scheduler-ext.io/main": "GPU-0"}
ASKED = GpuRequest(shares=ShareRequest((("main", 4096),)), priority=7)
HELD = BoundPod("uid-one", "default", "one", 7, ASKED, {"main": ("GPU-0",)})
INTENT = Intent(HELD, "12", "extender-a")
FIRST = Reservation("a", "uid-a", None, (INTENT,))

Call = Callable[[Bindings, float], Outcome[Any]]


def soon() -> float:
    """A deadline that no call here approaches."""
    return time.monotonic() + 60


def value(outcome: Outcome[Any]) -> Any:
    """The answer."""
    assert isinstance(outcome, Done), outcome
    return outcome.value


def body(uid: str = "uid-one", version: str | None = None) -> Json:
    return binding_body(ObjectMeta("one", "default", uid), "a", ANNOTATIONS, version)


def there(server: ApiServer) -> Json:
    return server.store.get(PODS, "one", "default").object()


def bound(server: ApiServer) -> bool:
    return bool(there(server)["spec"]["nodeName"])


def reserved(server: ApiServer) -> bool:
    return len(server.store.collection(GPU_RESERVATIONS)) == 1


def bind(bindings: Bindings, deadline: float) -> Outcome[None]:
    return bindings.post_binding("default", "one", body(), deadline)


def reserve(bindings: Bindings, deadline: float) -> Outcome[Reservation]:
    return bindings.put_reservation(FIRST, deadline)


def sent(bindings: Bindings, call: Call, patience_s: float) -> Outcome[Any]:
    """The result of a sent request; one that a busy machine did not send in time is repeated."""
    while isinstance(outcome := call(bindings, time.monotonic() + patience_s), Unsent):
        patience_s *= 2
        assert patience_s < 60
    return outcome


READS = [
    pytest.param(lambda bindings, deadline: bindings.get_pod("default", "one", deadline), id="get_pod"),
    pytest.param(lambda bindings, deadline: bindings.pods_on("a", deadline), id="pods_on"),
    pytest.param(lambda bindings, deadline: bindings.get_reservation("a", deadline), id="get_reservation"),
]
WRITES = [pytest.param(bind, bound, id="Binding"), pytest.param(reserve, reserved, id="GPUReservation")]


@pytest.mark.parametrize(
    "call", [*READS, pytest.param(bind, id="Binding"), pytest.param(reserve, id="GPUReservation")]
)
class TestAnyCall:
    @pytest.mark.parametrize(
        ("fault", "refused"),
        [
            pytest.param(Refuse(403, "Forbidden", "no"), Refused(403, "403 Forbidden: no"), id="no right to"),
            pytest.param(
                Refuse(429, "TooManyRequests", "no", 3),
                Refused(429, "429 TooManyRequests: no", 3.0),
                id="a busy server",
            ),
        ],
    )
    def test_a_refused_call_changed_nothing(
        self, server: ApiServer, bindings: Bindings, call: Call, fault: AnswerFault, refused: Refused
    ) -> None:
        server.faults.place(fault)
        assert call(bindings, soon()) == refused
        assert isinstance(call(bindings, soon()), Done)

    def test_without_time_nothing_is_sent(self, server: ApiServer, bindings: Bindings, call: Call) -> None:
        assert call(bindings, time.monotonic()) == Unsent("no time was left")
        assert server.log.count() == 0


@pytest.mark.parametrize("call", READS)
class TestReads:
    @pytest.mark.parametrize(
        ("fault", "expected"),
        [
            pytest.param(Refuse(500, "InternalError", "no"), Refused, id="a broken server"),
            pytest.param(Reset(), Unknown, id="a reset"),
            pytest.param(Drip(1, 0.05), Unknown, id="an answer in drips"),
        ],
    )
    def test_no_answer_is_unknown_and_a_server_error_a_refusal(
        self,
        server: ApiServer,
        bindings: Bindings,
        call: Call,
        fault: AnswerFault,
        expected: type[Outcome[Any]],
    ) -> None:
        server.store.put(GPU_RESERVATIONS, {"metadata": {"name": "a"}})
        server.faults.place(fault)
        outcome = sent(bindings, call, 0.2)
        assert isinstance(outcome, expected)
        server.faults.lift()
        assert isinstance(call(bindings, soon()), Done)

    def test_an_answer_that_cannot_be_read_is_unknown(
        self, server: ApiServer, bindings: Bindings, call: Call
    ) -> None:
        server.hook = lambda _: Answer(200, b'{"metadata":{"name":1},"items":3}')
        outcome = call(bindings, soon())
        assert isinstance(outcome, Unknown)
        assert "Expected" in outcome.message


@pytest.mark.parametrize(("write", "happened"), WRITES)
class TestWrites:
    @pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param(Reset(), id="a reset"),
            pytest.param(Refuse(500, "InternalError", "etcdserver: request timed out"), id="500"),
            pytest.param(Refuse(408, "RequestTimeout", "slow"), id="408"),
            pytest.param(Hang(), id="silence"),
        ],
    )
    def test_without_a_clear_answer_the_result_is_unknown(
        self,
        server: ApiServer,
        bindings: Bindings,
        write: Call,
        happened: Callable[[ApiServer], bool],
        fault: Any,
        done: bool,
    ) -> None:
        server.faults.place(After(fault) if done else fault)
        patience_s = 0.3 if isinstance(fault, Hang) else 60.0
        assert isinstance(sent(bindings, write, patience_s), Unknown)
        # The server may do it shortly after the caller gives up.
        eventually(lambda: happened(server) is done)
        server.faults.lift()

    def test_a_connection_that_ended_is_not_used_and_a_server_that_is_away_is_sent_nothing(
        self, server: ApiServer, bindings: Bindings, write: Call, happened: Callable[[ApiServer], bool]
    ) -> None:
        value(bindings.get_pod("default", "one", soon()))
        server.stop()
        server.start()
        assert isinstance(write(bindings, soon()), Done)
        assert happened(server)
        server.stop()
        assert isinstance(write(bindings, soon()), Unsent)


def test_a_binding_sets_the_node_and_the_annotations(server: ApiServer, bindings: Bindings) -> None:
    version = there(server)["metadata"]["resourceVersion"]
    assert bindings.post_binding("default", "one", body(version=version), soon()) == Done(None)
    assert there(server)["spec"]["nodeName"] == "a"
    assert there(server)["metadata"]["annotations"] == {"team": "x"} | ANNOTATIONS
    found = value(bindings.get_pod("default", "one", soon()))
    assert (found.metadata.uid, found.spec.node_name) == ("uid-one", "a")
    assert found.metadata.resource_version != version


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        pytest.param(body(uid="uid-two"), "uid is uid-one", id="another pod of the same name"),
        pytest.param(body(version="1"), "resourceVersion is ", id="a changed pod"),
    ],
)
def test_another_pod_is_not_bound(server: ApiServer, bindings: Bindings, wanted: Json, why: str) -> None:
    refusal = bindings.post_binding("default", "one", wanted, soon())
    assert isinstance(refusal, Refused)
    assert refusal.status == 409
    assert why in refusal.message
    assert not bound(server)


def test_a_pod_that_is_not_there_is_none(bindings: Bindings) -> None:
    assert bindings.get_pod("default", "two", soon()) == Done(None)
    assert bindings.get_pod("elsewhere", "one", soon()) == Done(None)


def test_names_cannot_lead_elsewhere(server: ApiServer, bindings: Bindings) -> None:
    bindings.get_pod("default", "one/binding?x=1#", soon())
    (request,) = server.log.all()
    assert (request.path, request.query) == ("/api/v1/namespaces/default/pods/one/binding?x=1#", {})


class TestPodsOn:
    @pytest.fixture(autouse=True)
    def some_pods(self, server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bindings_module, "PAGE", 2)
        server.store.put_all(PODS, [pod(f"on-{number}", {SHARE: "1"}, on="a") for number in range(5)])
        server.store.put(PODS, pod("elsewhere", on="b"))
        server.store.put(PODS, pod("finished", on="a", phase="Succeeded"))
        server.store.put(PODS, pod("failed", on="a", phase="Failed"))

    def test_all_unfinished_pods_of_the_node(self, server: ApiServer, bindings: Bindings) -> None:
        server.store.put(PODS, pod("odd", on="a", priority="high"))
        found = value(bindings.pods_on("a", soon()))
        assert [each.metadata.name for each in found.pods] == [f"on-{number}" for number in range(5)]
        assert [broken.name for broken in found.broken] == ["default/odd"]
        assert found.resource_version == str(server.store.version)
        pages = server.log.all(lists(PODS))
        assert len(pages) >= 3
        # Without a version a list is as new as storage, not as the server's cache.
        assert not any("resourceVersion" in page.query for page in pages)

    def test_a_list_that_always_expires_is_given_up_after_three_tries(
        self, server: ApiServer, bindings: Bindings
    ) -> None:
        server.faults.place(
            Refuse(410, "Expired", "too old"), lambda request: "continue" in request.query, times=None
        )
        refusal = bindings.pods_on("a", soon())
        assert isinstance(refusal, Refused)
        assert refusal.status == 410
        assert server.log.count(lambda request: "continue" not in request.query) == 3


class TestReservation:
    def test_a_reservation_is_created_and_read_again(self, server: ApiServer, bindings: Bindings) -> None:
        written = value(bindings.put_reservation(FIRST, soon()))
        assert written == replace(FIRST, resource_version=str(server.store.version))
        assert value(bindings.get_reservation("a", soon())) == written

    def test_of_two_writers_the_second_is_refused(self, bindings: Bindings) -> None:
        first = value(bindings.put_reservation(FIRST, soon()))
        other = Intent(replace(HELD, uid="uid-two", name="two"), "13", "extender-b")
        second = value(bindings.put_reservation(replace(first, intents=(INTENT, other)), soon()))
        assert second.intents == (INTENT, other)
        for late in (FIRST, first):
            refusal = bindings.put_reservation(late, soon())
            assert isinstance(refusal, Refused)
            assert refusal.status == 409
        assert value(bindings.get_reservation("a", soon())) == second

    def test_one_that_cannot_be_read_says_where(self, server: ApiServer, bindings: Bindings) -> None:
        server.store.put(GPU_RESERVATIONS, {"metadata": {"name": "a"}, "spec": {"intents": [{"podUID": ""}]}})
        outcome = bindings.get_reservation("a", soon())
        assert isinstance(outcome, Unknown)
        assert "spec.intents[0]" in outcome.message
