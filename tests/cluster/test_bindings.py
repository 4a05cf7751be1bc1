"""The calls that binding needs: what each does, and how each says that it ended, whatever went wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.cluster import bindings as bindings_module
from scheduler_ext.cluster.bindings import Bindings
from scheduler_ext.cluster.transport import Transport
from scheduler_ext.core.intent import Intent, Reservation
from scheduler_ext.core.node import BoundPod
from scheduler_ext.core.request import GpuRequest, ShareAsk
from scheduler_ext.extender.outcome import Done, Outcome, Refused, Unknown, Unsent
from scheduler_ext.wire.binding import binding_body
from scheduler_ext.wire.kube import ObjectMeta
from tests.cluster.api_faults import After, AnswerFault, Cut, Delay, Drip, Garbage, Hang, Refuse, Reset
from tests.cluster.api_handler import Answer
from tests.cluster.api_paths import GPU_RESERVATIONS, NODES, PODS
from tests.cluster.api_requests import lists
from tests.cluster.api_server import ApiServer
from tests.cluster.following import eventually
from tests.kube_objects import SHARE, Json, node, pod

NAMESPACED = "/api/v1/namespaces/default/pods"
HELD = BoundPod(
    "uid-one",
    "default",
    "one",
    7,
    GpuRequest(shares=ShareAsk((("main", 4096),)), priority=7),
    {"main": ("GPU-0",)},
)
INTENT = Intent(HELD, "12", "extender-a")
ANNOTATIONS = {"devices.gpu.scheduler-ext.io/main": "GPU-0"}


def soon() -> float:
    return time.monotonic() + 5


def body(uid: str = "uid-one", version: str | None = None, on: str = "a") -> Json:
    return binding_body(ObjectMeta("one", "default", uid), on, ANNOTATIONS, version)


@pytest.fixture
def bindings(server: ApiServer, transport: Transport) -> Bindings:
    server.store.put(NODES, node("a"))
    server.store.put(PODS, pod("one", {SHARE: "4096"}, annotations={"team": "x"}))
    return Bindings(transport)


def there(server: ApiServer) -> Json:
    return server.store.get(PODS, "one", "default").object()


def value(outcome: Outcome[Any]) -> Any:
    assert isinstance(outcome, Done), outcome
    return outcome.value


class TestBinding:
    def test_it_sets_the_node_and_the_annotations(self, server: ApiServer, bindings: Bindings) -> None:
        version = there(server)["metadata"]["resourceVersion"]
        assert bindings.post_binding("default", "one", body(version=version), soon()) == Done(None)
        assert there(server)["spec"]["nodeName"] == "a"
        assert there(server)["metadata"]["annotations"] == {"team": "x"} | ANNOTATIONS
        found = value(bindings.get_pod("default", "one", soon()))
        assert (found.metadata.uid, found.spec.node_name) == ("uid-one", "a")
        assert found.metadata.resource_version != version

    @pytest.mark.parametrize(
        ("change", "wanted", "why"),
        [
            pytest.param({}, body(uid="uid-two"), "uid is uid-one", id="another pod of the same name"),
            pytest.param({}, body(version="1"), "resourceVersion is ", id="a pod that is not what it was"),
            pytest.param({"spec": {"nodeName": "b"}}, body(), "already assigned to node 'b'", id="bound"),
            pytest.param(
                {"metadata": {"deletionTimestamp": "2026-11-21T07:13:08Z"}},
                body(),
                "being deleted",
                id="deleting",
            ),
        ],
    )
    def test_a_pod_that_cannot_be_bound_is_refused(
        self, server: ApiServer, bindings: Bindings, change: Json, wanted: Json, why: str
    ) -> None:
        server.store.update(
            PODS,
            "one",
            lambda before: before | {key: before[key] | more for key, more in change.items()},
            "default",
        )
        before = there(server)
        refusal = bindings.post_binding("default", "one", wanted, soon())
        assert isinstance(refusal, Refused)
        assert refusal.status == 409
        assert why in refusal.message
        assert there(server) == before

    def test_a_pod_that_is_gone_is_refused(self, bindings: Bindings) -> None:
        refusal = bindings.post_binding("default", "two", body() | {"metadata": {"name": "two"}}, soon())
        assert isinstance(refusal, Refused)
        assert refusal.status == 404


def bind(bindings: Bindings, deadline: float) -> Outcome[None]:
    return bindings.post_binding("default", "one", body(), deadline)


def reserve(bindings: Bindings, deadline: float) -> Outcome[Reservation]:
    return bindings.put_reservation(Reservation("a", "uid-a", None, (INTENT,)), deadline)


def bound(server: ApiServer) -> bool:
    return bool(there(server)["spec"]["nodeName"])


def reserved(server: ApiServer) -> bool:
    return len(server.store.collection(GPU_RESERVATIONS)) == 1


REFUSALS = [
    pytest.param(Refuse(409, "Conflict", "no"), Refused(409, "409 Conflict: no"), id="a conflict"),
    pytest.param(Refuse(403, "Forbidden", "no"), Refused(403, "403 Forbidden: no"), id="no right to"),
    pytest.param(
        Refuse(429, "TooManyRequests", "no", 3),
        Refused(429, "429 TooManyRequests: no", 3.0),
        id="a busy server",
    ),
]
LOSSES = [
    pytest.param(Reset(), id="a reset"),
    pytest.param(Garbage(), id="bytes that are no HTTP"),
    pytest.param(Refuse(500, "InternalError", "etcdserver: request timed out"), id="500"),
    pytest.param(Refuse(503, "ServiceUnavailable", "no endpoints"), id="503"),
    pytest.param(Refuse(504, "Timeout", "request did not complete"), id="504"),
    pytest.param(Refuse(408, "RequestTimeout", "slow"), id="408"),
    pytest.param(Hang(), id="silence"),
]
WRITES = pytest.mark.parametrize(
    ("write", "happened"),
    [pytest.param(bind, bound, id="Binding"), pytest.param(reserve, reserved, id="GPUReservation")],
)
Write = Callable[[Bindings, float], Outcome[Any]]
Happened = Callable[[ApiServer], bool]


@WRITES
class TestWrites:
    @pytest.mark.parametrize(("fault", "refused"), REFUSALS)
    def test_what_is_refused_did_not_happen(
        self,
        server: ApiServer,
        bindings: Bindings,
        write: Write,
        happened: Happened,
        fault: AnswerFault,
        refused: Refused,
    ) -> None:
        server.faults.place(fault)
        assert write(bindings, soon()) == refused
        assert not happened(server)

    @pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
    @pytest.mark.parametrize("fault", LOSSES)
    def test_without_an_answer_that_tells_it_is_not_known(
        self,
        server: ApiServer,
        bindings: Bindings,
        write: Write,
        happened: Happened,
        fault: Any,
        done: bool,
    ) -> None:
        server.faults.place(After(fault) if done else fault)
        patience_s = 0.3 if isinstance(fault, Hang) else 5.0
        assert isinstance(write(bindings, time.monotonic() + patience_s), Unknown)
        assert happened(server) is done
        server.faults.lift()

    def test_half_an_answer_does_not_tell(
        self, server: ApiServer, bindings: Bindings, write: Write, happened: Happened
    ) -> None:
        server.faults.place(Cut(20))
        assert isinstance(write(bindings, soon()), Unknown)
        assert happened(server)

    def test_a_server_asks_for_time_also_where_it_is_not_known(
        self, server: ApiServer, bindings: Bindings, write: Write, happened: Happened
    ) -> None:
        server.faults.place(Refuse(503, "ServiceUnavailable", "no", 2))
        assert write(bindings, soon()) == Unknown("503 ServiceUnavailable: no", 2.0)

    def test_it_may_happen_after_nobody_waits_any_more(
        self, server: ApiServer, bindings: Bindings, write: Write, happened: Happened
    ) -> None:
        server.faults.place(Delay(0.4))
        assert isinstance(write(bindings, time.monotonic() + 0.1), Unknown)
        assert not happened(server)
        eventually(lambda: happened(server))

    def test_a_server_that_is_not_there_was_sent_nothing(
        self, server: ApiServer, bindings: Bindings, write: Write, happened: Happened
    ) -> None:
        server.stop()
        assert isinstance(write(bindings, soon()), Unsent)

    def test_without_time_nothing_is_sent(
        self, server: ApiServer, bindings: Bindings, write: Write, happened: Happened
    ) -> None:
        assert write(bindings, time.monotonic()) == Unsent("no time was left")
        assert server.log.count() == 0

    def test_a_kept_connection_that_has_ended_is_not_used(
        self, server: ApiServer, bindings: Bindings, write: Write, happened: Happened
    ) -> None:
        value(bindings.get_pod("default", "one", soon()))
        server.stop()
        server.start()
        assert isinstance(write(bindings, soon()), Done)
        assert happened(server)


READS: list[Any] = [
    pytest.param(lambda b, deadline: b.get_pod("default", "one", deadline), id="get_pod"),
    pytest.param(lambda b, deadline: b.pods_on("a", deadline), id="pods_on"),
    pytest.param(lambda b, deadline: b.get_reservation("a", deadline), id="get_reservation"),
]
Read = Callable[[Bindings, float], Outcome[Any]]


@pytest.mark.parametrize("read", READS)
class TestReads:
    @pytest.mark.parametrize(
        ("fault", "refused"),
        [
            *REFUSALS,
            pytest.param(
                Refuse(500, "InternalError", "no"),
                Refused(500, "500 InternalError: no"),
                id="a broken server",
            ),
        ],
    )
    def test_a_refusal_is_told(
        self, server: ApiServer, bindings: Bindings, read: Read, fault: AnswerFault, refused: Refused
    ) -> None:
        server.faults.place(fault)
        assert read(bindings, soon()) == refused
        assert isinstance(read(bindings, soon()), Done)

    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param(Reset(), id="a reset"),
            pytest.param(Garbage(), id="bytes that are no HTTP"),
            pytest.param(Cut(20), id="half an answer"),
            pytest.param(Hang(), id="silence"),
            pytest.param(Drip(10, 0.05), id="an answer in drips"),
        ],
    )
    def test_no_answer_is_unknown(
        self, server: ApiServer, bindings: Bindings, read: Read, fault: AnswerFault
    ) -> None:
        server.store.put(GPU_RESERVATIONS, {"metadata": {"name": "a"}})
        server.faults.place(fault)
        began = time.monotonic()
        assert isinstance(read(bindings, began + 0.2), Unknown)
        # No tight bound: only that drips of five seconds are not waited for.
        assert time.monotonic() - began < 2
        server.faults.lift()
        assert isinstance(read(bindings, soon()), Done)

    def test_an_answer_that_cannot_be_read_is_unknown(
        self, server: ApiServer, bindings: Bindings, read: Read
    ) -> None:
        server.hook = lambda _: Answer(200, b'{"metadata":{"name":1},"items":3}')
        outcome = read(bindings, soon())
        assert isinstance(outcome, Unknown)
        assert "Expected" in outcome.message

    def test_a_server_that_is_not_there(self, server: ApiServer, bindings: Bindings, read: Read) -> None:
        server.stop()
        assert isinstance(read(bindings, soon()), Unsent)


def test_a_pod_that_is_not_there_is_none(bindings: Bindings) -> None:
    assert bindings.get_pod("default", "two", soon()) == Done(None)
    assert bindings.get_pod("elsewhere", "one", soon()) == Done(None)


def test_names_cannot_lead_elsewhere(server: ApiServer, bindings: Bindings) -> None:
    bindings.get_pod("default", "one/binding?x=1#", soon())
    (request,) = server.log.all()
    assert (request.path, request.query) == (f"{NAMESPACED}/one/binding?x=1#", {})


class TestPodsOn:
    @pytest.fixture(autouse=True)
    def some_pods(self, server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bindings_module, "PAGE", 2)
        for number in range(5):
            server.store.put(PODS, pod(f"on-{number}", {SHARE: "1"}, on="a"))
        server.store.put(PODS, pod("elsewhere", on="b"))
        server.store.put(PODS, pod("finished", on="a", phase="Succeeded"))
        server.store.put(PODS, pod("failed", on="a", phase="Failed"))

    def names(self, outcome: Outcome[Any]) -> list[str]:
        return [found.metadata.name for found in value(outcome).pods]

    def test_all_unfinished_pods_of_the_node(self, server: ApiServer, bindings: Bindings) -> None:
        outcome = bindings.pods_on("a", soon())
        assert self.names(outcome) == [f"on-{number}" for number in range(5)]
        assert value(outcome).resource_version == str(server.store.version)
        pages = server.log.all(lists(PODS))
        assert len(pages) >= 3
        # Without a version a list is as new as storage, not as the server's cache.
        assert not any("resourceVersion" in page.query for page in pages)

    def test_one_that_cannot_be_read_is_told_of(self, server: ApiServer, bindings: Bindings) -> None:
        server.store.put(PODS, pod("odd", on="a", priority="high"))
        outcome = bindings.pods_on("a", soon())
        assert len(self.names(outcome)) == 5
        assert [broken.name for broken in value(outcome).broken] == ["default/odd"]

    def test_a_list_that_was_overtaken_begins_anew(self, server: ApiServer, bindings: Bindings) -> None:
        second = server.faults.place(
            Refuse(410, "Expired", "too old"), lambda request: "continue" in request.query
        )
        assert len(self.names(bindings.pods_on("a", soon()))) == 5
        assert second.hits == 1

    def test_but_not_without_end(self, server: ApiServer, bindings: Bindings) -> None:
        server.faults.place(
            Refuse(410, "Expired", "too old"), lambda request: "continue" in request.query, times=None
        )
        refusal = bindings.pods_on("a", soon())
        assert isinstance(refusal, Refused)
        assert refusal.status == 410
        assert server.log.count(lambda request: "continue" not in request.query) == 3

    def test_the_deadline_is_for_all_pages(self, server: ApiServer, bindings: Bindings) -> None:
        server.faults.place(Delay(0.2), times=None)
        assert isinstance(bindings.pods_on("a", time.monotonic() + 0.3), Unknown | Unsent)


class TestReservation:
    def test_there_is_none_at_first(self, bindings: Bindings) -> None:
        assert bindings.get_reservation("a", soon()) == Done(None)

    def test_it_is_created_and_read_again(self, server: ApiServer, bindings: Bindings) -> None:
        written = value(bindings.put_reservation(Reservation("a", "uid-a", None, (INTENT,)), soon()))
        assert written == Reservation("a", "uid-a", str(server.store.version), (INTENT,))
        assert value(bindings.get_reservation("a", soon())) == written
        kept = server.store.get(GPU_RESERVATIONS, "a").object()
        assert kept["kind"] == "GPUReservation"
        assert kept["metadata"]["ownerReferences"] == [
            {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "uid-a"}
        ]

    def test_whoever_is_second_is_refused(self, server: ApiServer, bindings: Bindings) -> None:
        first = value(bindings.put_reservation(Reservation("a", "uid-a", None, (INTENT,)), soon()))
        again = bindings.put_reservation(Reservation("a", "uid-a", None, ()), soon())
        assert isinstance(again, Refused)
        assert again.status == 409
        other = Intent(replace(HELD, uid="uid-two", name="two"), "13", "extender-b")
        second = value(bindings.put_reservation(replace(first, intents=(INTENT, other)), soon()))
        assert second.intents == (INTENT, other)
        assert second.resource_version != first.resource_version
        late = bindings.put_reservation(replace(first, intents=()), soon())
        assert isinstance(late, Refused)
        assert late.status == 409
        assert value(bindings.get_reservation("a", soon())) == second

    def test_one_that_is_gone_is_not_made_again(self, server: ApiServer, bindings: Bindings) -> None:
        first = value(bindings.put_reservation(Reservation("a", "uid-a", None, (INTENT,)), soon()))
        server.store.delete(GPU_RESERVATIONS, "a")
        late = bindings.put_reservation(replace(first, intents=()), soon())
        assert isinstance(late, Refused)
        assert late.status == 404

    def test_one_that_cannot_be_read_says_where(self, server: ApiServer, bindings: Bindings) -> None:
        server.store.put(GPU_RESERVATIONS, {"metadata": {"name": "a"}, "spec": {"intents": [{"podUID": ""}]}})
        outcome = bindings.get_reservation("a", soon())
        assert isinstance(outcome, Unknown)
        assert "spec.intents[0]" in outcome.message
