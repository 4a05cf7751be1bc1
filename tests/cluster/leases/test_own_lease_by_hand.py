"""An election whose Lease is edited by hand, and one in threads."""

from __future__ import annotations

import pytest

from tests.cluster.api.api_paths import LEASES
from tests.cluster.candidates import NAME, NAMESPACE, PATH, Candidates
from tests.kube_objects import Json


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
