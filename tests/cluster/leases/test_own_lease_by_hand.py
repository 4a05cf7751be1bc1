"""An election whose Lease is edited by hand, and one in threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from scheduler_ext.cluster.own_lease import Election
from tests.cluster.api.api_paths import LEASES
from tests.cluster.api.api_requests import writes
from tests.cluster.candidates import NAME, NAMESPACE, PATH, Candidates
from tests.cluster.following import eventually
from tests.kube_objects import Json


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

    def test_given_to_another_no_candidate_has_it_until_it_expires(self, candidates: Candidates) -> None:
        candidates.each()
        candidates.edit(holderIdentity="b")
        assert candidates.each() == ""
        candidates.clock.now += 14
        assert candidates.each() == ""
        candidates.clock.now += 1
        assert candidates.each() == "a"

    def test_taken_away_it_is_not_another_s_at_once(self, candidates: Candidates) -> None:
        candidates.each()
        candidates.edit(holderIdentity="")
        # The holder does not know yet.
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

    def test_a_very_long_lease_duration_is_respected_for_300_s_only(self, candidates: Candidates) -> None:
        candidates.each("a")
        candidates.edit(leaseDurationSeconds=10**9)
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


class TestThreads:
    """With threads and a clock that runs: as in production, but faster."""

    @pytest.fixture
    def elect(self, candidates: Candidates) -> Iterator[Callable[[str, float], Election]]:
        built: list[Election] = []

        def elect(name: str, lease_s: float) -> Election:
            election = Election(
                candidates.transport,
                NAMESPACE,
                NAME,
                name,
                lease_s=lease_s,
                renew_s=0.7 * lease_s,
                retry_s=0.05,
            )
            built.append(election)
            candidates.all[name] = election
            election.start()
            return election

        yield elect
        candidates.server.faults.lift()
        for election in built:
            election.stop(60)
            assert not election.is_alive

    def test_a_lease_changes_hands_between_threads(
        self, candidates: Candidates, elect: Callable[[str, float], Election]
    ) -> None:
        first = elect("c", 600.0)
        eventually(lambda: first.active)
        second = elect("d", 600.0)
        end = time.monotonic() + 60
        # The first renews it in its thread, and the second looks on.
        while candidates.server.log.count(writes(LEASES, "PUT")) < 5:
            assert (first.active, second.active) == (True, False)
            assert time.monotonic() < end
            time.sleep(0.01)
        # A returned Lease is taken without a wait.
        first.stop(60)
        eventually(lambda: second.active)
        assert not first.active
