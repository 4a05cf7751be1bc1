"""The reads of a bind, and GPUReservations: their results, after any failure."""

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
from tests.cluster.api.api_faults import AnswerFault, Cut, Drip, Refuse, Reset
from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_paths import GPU_RESERVATIONS, PODS
from tests.cluster.api.api_requests import lists
from tests.cluster.api.api_server import ApiServer
from tests.cluster.binding_calls import HELD, INTENT, REFUSALS, soon, value
from tests.kube_objects import SHARE, pod

NAMESPACED = "/api/v1/namespaces/default/pods"


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
    def test_a_refusal_is_reported(
        self, server: ApiServer, bindings: Bindings, read: Read, fault: AnswerFault, refused: Refused
    ) -> None:
        server.faults.place(fault)
        assert read(bindings, soon()) == refused
        assert isinstance(read(bindings, soon()), Done)

    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param(Reset(), id="a reset"),
            pytest.param(Cut(20), id="half an answer"),
            pytest.param(Drip(1, 0.05), id="an answer in drips"),
        ],
    )
    def test_no_answer_is_unknown(
        self, server: ApiServer, bindings: Bindings, read: Read, fault: AnswerFault
    ) -> None:
        server.store.put(GPU_RESERVATIONS, {"metadata": {"name": "a"}})
        server.faults.place(fault)
        end = time.monotonic() + 60
        # A busy machine that sends nothing in time does not ask.
        while isinstance(outcome := read(bindings, time.monotonic() + 0.2), Unsent):
            assert time.monotonic() < end
        assert isinstance(outcome, Unknown)
        assert outcome.message
        server.faults.lift()
        assert isinstance(read(bindings, soon()), Done)

    def test_an_answer_that_cannot_be_read_is_unknown(
        self, server: ApiServer, bindings: Bindings, read: Read
    ) -> None:
        server.hook = lambda _: Answer(200, b'{"metadata":{"name":1},"items":3}')
        outcome = read(bindings, soon())
        assert isinstance(outcome, Unknown)
        assert "Expected" in outcome.message


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

    def test_an_unreadable_one_is_reported(self, server: ApiServer, bindings: Bindings) -> None:
        server.store.put(PODS, pod("odd", on="a", priority="high"))
        outcome = bindings.pods_on("a", soon())
        assert len(self.names(outcome)) == 5
        assert [broken.name for broken in value(outcome).broken] == ["default/odd"]

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
        written = value(bindings.put_reservation(Reservation("a", "uid-a", None, (INTENT,)), soon()))
        assert written == Reservation("a", "uid-a", str(server.store.version), (INTENT,))
        assert value(bindings.get_reservation("a", soon())) == written
        kept = server.store.get(GPU_RESERVATIONS, "a").object()
        assert kept["kind"] == "GPUReservation"
        assert kept["metadata"]["ownerReferences"] == [
            {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "uid-a"}
        ]

    def test_the_second_pod_is_refused(self, server: ApiServer, bindings: Bindings) -> None:
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

    def test_one_that_cannot_be_read_says_where(self, server: ApiServer, bindings: Bindings) -> None:
        server.store.put(GPU_RESERVATIONS, {"metadata": {"name": "a"}, "spec": {"intents": [{"podUID": ""}]}})
        outcome = bindings.get_reservation("a", soon())
        assert isinstance(outcome, Unknown)
        assert "spec.intents[0]" in outcome.message
