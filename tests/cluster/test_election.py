"""Who is active by a Lease of our own: never two, another one soon, whatever happens to the API server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler_ext.cluster.election import Election
from scheduler_ext.cluster.transport import Reply, Transport
from tests.cluster.api_faults import After, Hang, Refuse, Reset
from tests.cluster.api_paths import LEASES
from tests.cluster.api_requests import writes
from tests.cluster.api_server import ApiServer
from tests.cluster.following import eventually
from tests.kube_objects import Json

NAMESPACE, NAME = "gpu-scheduler", "gpu-extender"
PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


class Clock:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Candidates:
    """Candidates by name, on one server and one clock, that try when they are told to."""

    def __init__(self, server: ApiServer, transport: Transport) -> None:
        self.server = server
        self.transport = transport
        self.clock = Clock()
        self.turns: list[tuple[str, bool]] = []
        self.all: dict[str, Election] = {}

    def stand(self, name: str) -> Election:
        """A new one."""

        def turned(active: bool) -> None:
            self.turns.append((name, active))

        built = Election(self.transport, NAMESPACE, NAME, name, turned, monotonic=self.clock)
        self.all[name] = built
        return built

    def active(self) -> str:
        """The names of those that are active."""
        return "".join(name for name, one in self.all.items() if one.active)

    def each(self, *names: str) -> str:
        """They try one after the other; who is active then."""
        for name in names or tuple(self.all):
            self.all[name].attempt()
        return self.active()

    def lease(self) -> Json:
        found: Json = self.server.store.get(LEASES, NAME, NAMESPACE).object()
        return found

    def edit(self, **spec: Any) -> None:
        """Somebody edits the Lease by hand."""
        self.server.store.update(
            LEASES, NAME, lambda before: before | {"spec": before["spec"] | spec}, NAMESPACE
        )


@pytest.fixture
def candidates(server: ApiServer, transport: Transport) -> Candidates:
    built = Candidates(server, transport)
    built.stand("a")
    built.stand("b")
    return built


def test_the_first_takes_it_and_keeps_it(candidates: Candidates, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert candidates.active() == ""
    for _ in range(50):
        assert candidates.each() == "a"
        candidates.clock.now += 2
    spec = candidates.lease()["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 15, 0)
    assert spec["acquireTime"] < spec["renewTime"]
    assert candidates.turns == [("a", True)]
    assert [record.getMessage() for record in caplog.records] == [
        "this extender is active now; the Lease is held by 'a'"
    ]
    # Renewing needs no look.
    assert candidates.server.log.count(writes(LEASES, "PUT")) == 49


def test_the_next_takes_it_when_it_has_been_still_for_long(candidates: Candidates) -> None:
    candidates.each()
    began = candidates.clock.now
    while candidates.each("b") == "a":
        candidates.clock.now += 1
    assert candidates.clock.now == began + 10
    # Nobody is, for the time that separates them.
    while candidates.each("b") == "":
        candidates.clock.now += 1
    assert candidates.clock.now == began + 15
    assert candidates.active() == "b"
    assert candidates.lease()["spec"]["leaseTransitions"] == 1
    # The first comes back.
    assert candidates.each("a", "b", "a") == "b"
    assert candidates.turns == [("a", True), ("b", True), ("a", False)]


def test_it_is_our_clock_that_counts(candidates: Candidates) -> None:
    candidates.each("a")
    candidates.edit(renewTime="2000-01-01T00:00:00.000000Z", acquireTime="2000-01-01T00:00:00.000000Z")
    assert candidates.each("b") == "a"
    candidates.clock.now += 14.9
    assert "b" not in candidates.each("b")
    candidates.clock.now += 0.1
    assert candidates.each("b") == "b"


def test_given_back_it_is_another_s_at_once(candidates: Candidates) -> None:
    candidates.each()
    candidates.all["a"].stop()
    assert candidates.active() == ""
    assert candidates.lease()["spec"]["holderIdentity"] == ""
    assert candidates.each("b") == "b"
    assert candidates.turns == [("a", True), ("a", False), ("b", True)]
    assert candidates.each("a") == "b"


def test_a_standby_gives_nothing_back(candidates: Candidates) -> None:
    candidates.each()
    before = candidates.lease()
    candidates.all["b"].stop()
    assert candidates.lease() == before
    assert candidates.each("a") == "a"


def test_one_that_cannot_give_it_back_is_waited_for(candidates: Candidates) -> None:
    candidates.each()
    candidates.server.faults.place(Refuse(500, "InternalError", "etcd"), writes(LEASES))
    candidates.all["a"].stop()
    assert candidates.active() == ""
    candidates.clock.now += 14
    assert candidates.each("b") == ""
    candidates.clock.now += 1
    assert candidates.each("b") == "b"


def test_who_comes_back_under_an_old_name_waits_as_all_do(candidates: Candidates) -> None:
    candidates.each("a")
    again = candidates.stand("a")
    again.attempt()
    assert not again.active
    candidates.clock.now += 15
    again.attempt()
    assert again.active


def test_turns_are_told_before_one_is_active_and_after(candidates: Candidates) -> None:
    told: list[tuple[bool, bool]] = []

    def turned(active: bool) -> None:
        told.append((active, election.active))

    election = Election(candidates.transport, NAMESPACE, NAME, "c", turned, monotonic=candidates.clock)
    election.attempt()
    candidates.clock.now += 10
    assert not election.active
    # Paused, it was not active, though nobody else was and it is again at once.
    election.attempt()
    assert election.active
    election.stop()
    assert told == [(True, False), (False, False), (True, False), (False, False)]


def test_who_cannot_prepare_does_not_become_active(candidates: Candidates) -> None:
    def turned(active: bool) -> None:
        if active:
            raise RuntimeError("cannot")

    election = Election(candidates.transport, NAMESPACE, NAME, "c", turned, monotonic=candidates.clock)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            election.attempt()
        assert not election.active


class TestOutage:
    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param(Reset(), id="resets"),
            pytest.param(Refuse(500, "InternalError", "etcd"), id="500"),
            pytest.param(Refuse(429, "TooManyRequests", "busy", 1), id="429"),
            pytest.param(Refuse(403, "Forbidden", "no"), id="403"),
        ],
    )
    def test_the_holder_stays_active_for_as_long_as_it_may(
        self, candidates: Candidates, fault: Reset | Refuse, caplog: pytest.LogCaptureFixture
    ) -> None:
        candidates.each()
        placed = candidates.server.faults.place(fault, times=None)
        for _ in range(4):
            candidates.clock.now += 2
            assert candidates.each() == "a"
        candidates.clock.now += 2
        assert candidates.each() == ""
        problem = candidates.all["a"].problem
        assert problem
        candidates.clock.now += 20
        assert candidates.each() == ""
        placed.lift()
        # It is still theirs who had it: nobody could take it meanwhile.
        assert candidates.each("a", "b") == "a"
        assert candidates.all["a"].problem is None
        assert candidates.turns == [("a", True), ("a", False), ("a", True)]
        # Once for each of them.
        assert sum(record.levelname == "WARNING" for record in caplog.records) == 2

    def test_a_lost_answer_counts_from_when_it_was_asked_for(self, candidates: Candidates) -> None:
        candidates.each()
        candidates.clock.now += 5
        candidates.server.faults.place(After(Reset()), writes(LEASES))
        candidates.each("a")
        # The Lease was renewed, which its holder has not heard.
        candidates.clock.now += 4.9
        assert candidates.active() == "a"
        placed = candidates.server.faults.place(Reset(), writes(LEASES), times=None)
        candidates.each("a")
        candidates.clock.now += 5
        assert candidates.each("a") == "a"
        candidates.clock.now += 0.1
        assert candidates.each("a") == ""
        placed.lift()
        assert candidates.each("a") == "a"

    def test_a_lost_answer_to_taking_it(self, candidates: Candidates) -> None:
        candidates.server.faults.place(After(Reset()), writes(LEASES))
        assert candidates.each("a") == ""
        assert candidates.each("b") == ""
        assert candidates.each("a") == "a"

    def test_a_server_that_hangs(self, candidates: Candidates) -> None:
        election = Election(candidates.transport, NAMESPACE, NAME, "c", lease_s=0.4, renew_s=0.2, retry_s=0.1)
        candidates.server.faults.place(Hang(), times=None)
        began = time.monotonic()
        election.attempt()
        # No tight bound: only that it does not wait for as long as other requests may.
        assert time.monotonic() - began < 5
        assert not election.active
        candidates.server.faults.lift()
        election.attempt()
        assert election.active


class TestByHand:
    def test_labelled_it_is_still_ours(self, candidates: Candidates) -> None:
        candidates.each()
        before = candidates.lease()
        before["metadata"]["labels"] = {"team": "x"}
        before["spec"]["preferredHolder"] = "someone"
        candidates.server.store.put(PATH, before)
        assert candidates.each() == "a"
        after = candidates.lease()
        assert after["metadata"]["labels"] == {"team": "x"}
        assert after["spec"]["preferredHolder"] == "someone"
        assert after["spec"]["renewTime"] > before["spec"]["renewTime"]
        assert candidates.turns == [("a", True)]

    @pytest.mark.parametrize("holder", ["somebody", "b"])
    def test_given_to_another_nobody_has_it_until_it_runs_out(
        self, candidates: Candidates, holder: str
    ) -> None:
        candidates.each()
        candidates.edit(holderIdentity=holder)
        assert candidates.each() == ""
        candidates.clock.now += 14
        assert candidates.each() == ""
        candidates.clock.now += 1
        assert candidates.each() == "a"

    def test_taken_away_it_is_not_another_s_at_once(self, candidates: Candidates) -> None:
        candidates.each()
        candidates.edit(holderIdentity="")
        # The holder has not heard of it yet.
        assert candidates.each("b") == "a"
        assert candidates.each("a") == ""
        candidates.clock.now += 15
        assert candidates.each("b", "a") == "b"

    def test_deleted_it_is_the_holder_s_who_finds_out_and_not_another_s_at_once(
        self, candidates: Candidates
    ) -> None:
        candidates.each()
        candidates.server.store.delete(LEASES, NAME, NAMESPACE)
        assert candidates.each("b") == "a"
        candidates.clock.now += 2
        assert candidates.each() == "a"
        assert candidates.lease()["spec"]["holderIdentity"] == "a"
        candidates.server.store.delete(LEASES, NAME, NAMESPACE)
        candidates.each("b")
        candidates.clock.now += 15
        assert candidates.each("b", "a") == "b"

    @pytest.mark.parametrize("seconds", [10**9, 300])
    def test_made_good_for_very_long_it_is_waited_for_but_not_for_ever(
        self, candidates: Candidates, seconds: int
    ) -> None:
        candidates.each("a")
        candidates.edit(leaseDurationSeconds=seconds)
        candidates.each("b")
        candidates.clock.now += 299
        assert candidates.each("b") == ""
        candidates.clock.now += 1
        assert candidates.each("b") == "b"

    def test_a_holder_puts_right_how_long_it_is_good_for(self, candidates: Candidates) -> None:
        candidates.each("a")
        candidates.edit(leaseDurationSeconds=10**9)
        assert candidates.each("a") == "a"
        assert candidates.lease()["spec"]["leaseDurationSeconds"] == 15

    @pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": None}, {"holderIdentity": ""}])
    def test_one_that_was_made_empty_is_anybody_s(self, candidates: Candidates, spec: Json | None) -> None:
        candidates.server.store.put(PATH, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec})
        assert candidates.each() == "a"

    def test_one_that_cannot_be_read_is_nobody_s(self, candidates: Candidates) -> None:
        candidates.server.store.put(
            PATH, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": {"holderIdentity": 7}}
        )
        assert candidates.each() == ""
        assert "spec.holderIdentity" in (candidates.all["a"].problem or "")


def test_two_that_take_it_at_once(candidates: Candidates) -> None:
    # The second looks before the first has taken it, and writes after.
    looked = candidates.all["b"]
    looked._look()
    assert candidates.each("a") == "a"
    with pytest.raises(Exception, match="409"):
        looked._take()
    assert candidates.each("b") == "a"


@pytest.mark.parametrize("times", [(10, 10, 2), (15, 10, 10), (5, 10, 2)])
def test_times_that_could_make_two_active_are_refused(
    transport: Transport, times: tuple[float, float, float]
) -> None:
    lease_s, renew_s, retry_s = times
    with pytest.raises(ValueError, match="renewed within"):
        Election(transport, NAMESPACE, NAME, "a", lease_s=lease_s, renew_s=renew_s, retry_s=retry_s)


class TestThreads:
    """With threads and a clock that runs: as in production, but faster."""

    @pytest.fixture
    def elect(self, candidates: Candidates) -> Iterator[Callable[[str], Election]]:
        built: list[Election] = []

        def elect(name: str) -> Election:
            election = Election(
                candidates.transport, NAMESPACE, NAME, name, lease_s=1.0, renew_s=0.7, retry_s=0.05
            )
            built.append(election)
            candidates.all[name] = election
            election.start()
            return election

        yield elect
        candidates.server.faults.lift()
        for election in built:
            election.stop()
            assert not election._thread.is_alive()

    def test_it_changes_hands(self, candidates: Candidates, elect: Callable[[str], Election]) -> None:
        first = elect("c")
        eventually(lambda: first.active)
        second = elect("d")
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            assert (first.active, second.active) == (True, False)
            time.sleep(0.01)
        first.stop()
        eventually(lambda: second.active)
        assert not first.active

    def test_after_an_outage_too(self, candidates: Candidates, elect: Callable[[str], Election]) -> None:
        first, second = elect("c"), elect("d")
        eventually(lambda: first.active or second.active)
        candidates.server.stop()
        eventually(lambda: not (first.active or second.active))
        candidates.server.start()
        eventually(lambda: first.active or second.active)
        assert first.active != second.active


Steps = Sequence[Callable[[], object]]


class Slow(Transport):
    """Things happen while a request is on its way, and while its answer is."""

    there: Steps = ()
    back: Steps = ()

    def _whole(self, *args: Any) -> Reply:
        # What happens meanwhile may be requests, which are quick.
        there, back = self.there, self.back
        self.there = self.back = ()
        for step in there:
            step()
        try:
            return super()._whole(*args)
        finally:
            for step in back:
                step()


def test_an_answer_that_comes_late_makes_nobody_active(server: ApiServer, tmp_path: Path) -> None:
    slow = Slow.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig"))
    assert isinstance(slow, Slow)
    candidates = Candidates(server, slow)
    candidates.stand("a")
    candidates.stand("b")
    candidates.each("a")

    def pass_by() -> None:
        candidates.clock.now += 15

    # The first renews it, and is paused before it hears so. The second sees that, waits, and takes it.
    slow.back = [lambda: candidates.each("b"), pass_by, lambda: candidates.each("b")]
    assert candidates.each("a") == "b"
    assert candidates.each("a") == "b"
    slow.close()


_SERVER = ApiServer()


class AnyOrder(RuleBasedStateMachine):
    """Two candidates in any order of tries, with requests that take time, are lost, or whose answers are;
    pauses of a candidate are the time that passes without its trying."""

    names = st.sampled_from("ab")
    moments = st.sampled_from((0.1, 5.0, 9.9, 15.0))
    # While a request of one is on its way: time passes, or (None) the other one tries.
    events = st.lists(st.one_of(st.none(), moments), max_size=5)

    def __init__(self) -> None:
        super().__init__()
        _SERVER.faults.lift()
        with _SERVER.store.lock:
            for entry in _SERVER.store.collection(LEASES).current():
                _SERVER.store.delete(LEASES, entry.name, entry.namespace)
        self.transport = _slow(_SERVER)
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
    def somebody_labels_it(self) -> None:
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


def _slow(server: ApiServer) -> Slow:
    path = Path(_DIRECTORY[0]) / "kubeconfig"
    server.kubeconfig(path)
    found = Slow.from_kubeconfig(path)
    assert isinstance(found, Slow)
    return found


_DIRECTORY: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def any_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    _DIRECTORY.append(str(tmp_path_factory.mktemp("election")))
    with _SERVER:
        yield
    _DIRECTORY.clear()


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
