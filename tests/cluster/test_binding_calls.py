"""The calls of a bind: their effects and their results, after any failure."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from scheduler_ext.binding.outcome import Done, Outcome, Refused, Unknown, Unsent
from scheduler_ext.cluster.binding_calls import Bindings
from scheduler_ext.core.cache.intent import Reservation
from scheduler_ext.wire.binding import binding_body
from scheduler_ext.wire.kube import ObjectMeta
from tests.cluster.api.api_faults import After, AnswerFault, Hang, Refuse, Reset
from tests.cluster.api.api_paths import GPU_RESERVATIONS, PODS
from tests.cluster.api.api_server import ApiServer
from tests.cluster.binding_calls import INTENT, REFUSALS, soon, value
from tests.cluster.following import eventually
from tests.kube_objects import Json

ANNOTATIONS = {"devices.gpu.scheduler-ext.io/main": "GPU-0"}


def body(uid: str = "uid-one", version: str | None = None, on: str = "a") -> Json:
    return binding_body(ObjectMeta("one", "default", uid), on, ANNOTATIONS, version)


def there(server: ApiServer) -> Json:
    return server.store.get(PODS, "one", "default").object()


class TestBinding:
    def test_a_binding_sets_the_node_and_the_annotations(self, server: ApiServer, bindings: Bindings) -> None:
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
            pytest.param({}, body(version="1"), "resourceVersion is ", id="a changed pod"),
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


Write = Callable[[Bindings, float], Outcome[Any]]


def bind(bindings: Bindings, deadline: float) -> Outcome[None]:
    return bindings.post_binding("default", "one", body(), deadline)


def reserve(bindings: Bindings, deadline: float) -> Outcome[Reservation]:
    return bindings.put_reservation(Reservation("a", "uid-a", None, (INTENT,)), deadline)


def bound(server: ApiServer) -> bool:
    return bool(there(server)["spec"]["nodeName"])


def reserved(server: ApiServer) -> bool:
    return len(server.store.collection(GPU_RESERVATIONS)) == 1


def sent(bindings: Bindings, write: Write, patience_s: float) -> Outcome[Any]:
    """The result of a sent write; one that a busy machine did not send in time is repeated."""
    while isinstance(outcome := write(bindings, time.monotonic() + patience_s), Unsent):
        patience_s *= 2
        assert patience_s < 60
    return outcome


LOSSES = [
    pytest.param(Reset(), id="a reset"),
    pytest.param(Refuse(500, "InternalError", "etcdserver: request timed out"), id="500"),
    pytest.param(Refuse(408, "RequestTimeout", "slow"), id="408"),
    pytest.param(Hang(), id="silence"),
]
WRITES = pytest.mark.parametrize(
    ("write", "happened"),
    [pytest.param(bind, bound, id="Binding"), pytest.param(reserve, reserved, id="GPUReservation")],
)
Happened = Callable[[ApiServer], bool]


@WRITES
class TestWrites:
    @pytest.mark.parametrize(("fault", "refused"), REFUSALS)
    def test_a_refused_call_changed_nothing(
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
    def test_without_a_clear_answer_the_result_is_unknown(
        self,
        server: ApiServer,
        bindings: Bindings,
        write: Write,
        happened: Happened,
        fault: Any,
        done: bool,
    ) -> None:
        server.faults.place(After(fault) if done else fault)
        patience_s = 0.3 if isinstance(fault, Hang) else 60.0
        assert isinstance(sent(bindings, write, patience_s), Unknown)
        # The server may do it shortly after the caller gives up.
        eventually(lambda: happened(server) is done)
        server.faults.lift()

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
