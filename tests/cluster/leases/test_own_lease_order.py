"""Two candidates in any order of tries, losses and pauses: never two are active."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler_ext.cluster.client.transport import Reply, Transport
from tests.cluster.api.api_faults import After, Refuse, Reset
from tests.cluster.api.api_paths import LEASES
from tests.cluster.api.api_requests import writes
from tests.cluster.api.api_server import ApiServer
from tests.cluster.candidates import PATH, Candidates
from tests.examples import examples

Steps = Sequence[Callable[[], object]]


class Slow(Transport):
    """Events during a request, and during its answer."""

    there: Steps = ()
    back: Steps = ()

    def send(self, *args: Any, **options: Any) -> Reply:
        # Those events may be requests, which are quick.
        there, back = self.there, self.back
        self.there = self.back = ()
        for step in there:
            step()
        try:
            return super().send(*args, **options)
        finally:
            for step in back:
                step()


_SERVER = ApiServer()


class AnyOrder(RuleBasedStateMachine):
    """Two candidates in any order of tries, with requests that take time, are lost, or whose answers are
    lost; a candidate pauses while it does not try.
    """

    names = st.sampled_from("ab")
    moments = st.sampled_from((0.1, 5.0, 9.9, 15.0))
    # During a request of one candidate: time passes, or (None) the other one tries.
    events = st.lists(st.one_of(st.none(), moments), max_size=5)

    def __init__(self) -> None:
        super().__init__()
        _SERVER.faults.lift()
        with _SERVER.store.lock:
            for entry in _SERVER.store.collection(LEASES).current():
                _SERVER.store.delete(LEASES, entry.name, entry.namespace)
        with tempfile.TemporaryDirectory() as folder:
            built = Slow.from_kubeconfig(_SERVER.kubeconfig(Path(folder) / "kubeconfig"))
        assert isinstance(built, Slow)
        self.transport = built
        self.candidates = Candidates(_SERVER, self.transport)
        for name in "ab":
            self.candidates.stand(name)

    def teardown(self) -> None:
        self.transport.close()

    @rule(name=names)
    def tries(self, name: str) -> None:
        self.candidates.each(name)

    @rule(name=names, there=events, back=events)
    def tries_while(self, name: str, there: list[float | None], back: list[float | None]) -> None:
        self.transport.there = [self.step(name, event) for event in there]
        self.transport.back = [self.step(name, event) for event in back]
        self.candidates.each(name)
        self.transport.there = self.transport.back = ()

    def step(self, name: str, event: float | None) -> Callable[[], object]:
        other = "b" if name == "a" else "a"

        def happen() -> None:
            if event is None:
                self.candidates.each(other)
            else:
                self.candidates.clock.now += event
            self.never_two()

        return happen

    @rule(name=names, fault=st.sampled_from((Reset(), After(Reset()), Refuse(409, "Conflict", "no"))))
    def tries_in_vain(self, name: str, fault: Any) -> None:
        _SERVER.faults.place(fault, writes(LEASES))
        self.candidates.each(name)
        _SERVER.faults.lift()

    @rule(seconds=moments)
    def time_passes(self, seconds: float) -> None:
        self.candidates.clock.now += seconds

    @rule(name=names, kindly=st.booleans())
    def is_replaced(self, name: str, kindly: bool) -> None:
        if kindly:
            self.candidates.all[name].stop()
        self.candidates.stand(name)

    @precondition(lambda self: self.candidates.active())
    @rule()
    def a_user_labels_it(self) -> None:
        found = self.candidates.lease()
        found["metadata"]["labels"] = {"at": str(self.candidates.clock.now)}
        _SERVER.store.put(PATH, found)

    @invariant()
    def never_two(self) -> None:
        assert self.candidates.active() in ("", "a", "b")

    @invariant()
    def who_is_active_holds_it(self) -> None:
        active = self.candidates.active()
        assert not active or self.candidates.lease()["spec"]["holderIdentity"] == active


@pytest.fixture(scope="module", autouse=True)
def any_server() -> Iterator[None]:
    with _SERVER:
        yield


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(examples(10, long=300), stateful_step_count=30)
