"""The active extender by a Lease of its own: never two, soon a new one, through any fault of the API
server.
"""

from __future__ import annotations

import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.own_lease import Election
from tests.cluster.api.api_faults import After, Refuse, Reset
from tests.cluster.api.api_paths import LEASES
from tests.cluster.api.api_requests import writes
from tests.cluster.candidates import NAME, NAMESPACE, PATH, Candidates
from tests.kube_objects import Json


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
    # No candidate is active for the time between them.
    while candidates.each("b") == "":
        candidates.clock.now += 1
    assert candidates.clock.now == began + 15
    assert candidates.active() == "b"
    assert candidates.lease()["spec"]["leaseTransitions"] == 1
    # The first comes back.
    assert candidates.each("a", "b", "a") == "b"
    assert candidates.turns == [("a", True), ("b", True), ("a", False)]


def test_a_lease_expires_by_our_own_clock(candidates: Candidates) -> None:
    candidates.each("a")
    candidates.edit(renewTime="2000-01-01T00:00:00.000000Z", acquireTime="2000-01-01T00:00:00.000000Z")
    assert candidates.each("b") == "a"
    candidates.clock.now += 14.9
    assert "b" not in candidates.each("b")
    candidates.clock.now += 0.1
    assert candidates.each("b") == "b"


def test_a_candidate_with_the_holders_name_waits_like_others(candidates: Candidates) -> None:
    candidates.each("a")
    again = candidates.stand("a")
    again.attempt()
    assert not again.active
    candidates.clock.now += 15
    again.attempt()
    assert again.active


def test_subscribers_are_notified_before_a_candidate_is_active_and_after(candidates: Candidates) -> None:
    told: list[tuple[bool, bool]] = []

    def turned(active: bool) -> None:
        told.append((active, election.active))

    election = Election(candidates.transport, NAMESPACE, NAME, "c", turned, monotonic=candidates.clock)
    election.attempt()
    candidates.clock.now += 10
    assert not election.active
    # Paused, it was not active, though no other candidate was and it is again at once.
    election.attempt()
    assert election.active
    election.stop()
    assert told == [(True, False), (False, False), (True, False), (False, False)]


class TestOutage:
    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param(Reset(), id="resets"),
            pytest.param(Refuse(500, "InternalError", "etcd"), id="500"),
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
        # It still belongs to its holder: no other candidate could take it meanwhile.
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
        # The Lease was renewed, and its holder did not get the answer.
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


@pytest.mark.parametrize("times", [(10, 10, 2), (15, 10, 10), (5, 10, 2)])
def test_times_that_could_make_two_active_are_refused(
    transport: Transport, times: tuple[float, float, float]
) -> None:
    lease_s, renew_s, retry_s = times
    with pytest.raises(ValueError, match="renewed within"):
        Election(transport, NAMESPACE, NAME, "a", lease_s=lease_s, renew_s=renew_s, retry_s=retry_s)


class TestByHand:
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

    def test_a_very_long_lease_duration_is_respected_for_300_s_only(self, candidates: Candidates) -> None:
        candidates.each("a")
        candidates.edit(leaseDurationSeconds=10**9)
        candidates.each("b")
        candidates.clock.now += 299
        assert candidates.each("b") == ""
        candidates.clock.now += 1
        assert candidates.each("b") == "b"

    @pytest.mark.parametrize("spec", [None, {"holderIdentity": ""}])
    def test_an_emptied_one_is_free_for_all(self, candidates: Candidates, spec: Json | None) -> None:
        candidates.server.store.put(PATH, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec})
        assert candidates.each() == "a"

    def test_an_unreadable_one_belongs_to_no_pod(self, candidates: Candidates) -> None:
        candidates.server.store.put(
            PATH, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": {"holderIdentity": 7}}
        )
        assert candidates.each() == ""
        assert "spec.holderIdentity" in (candidates.all["a"].problem or "")
