"""What becomes of gangs where the API server refuses writes."""

from __future__ import annotations

import time

import pytest

from tests.cluster.api.api_faults import Hang, Refuse
from tests.cluster.api.api_paths import PODS
from tests.cluster.api.api_requests import Request
from tests.cluster.following import eventually
from tests.features.gangs.live.planned import (
    GANGS,
    PREEMPTING,
    WHOLE,
    Planned,
    is_eviction,
    is_lift,
    is_nomination,
    own_writes,
    started,
    waits_for,
)
from tests.kube_objects import pod


def test_what_victims_leave_is_kept_for_the_gang_though_an_eviction_fails(planned: Planned) -> None:
    planned.add_nodes("n1", "n2")
    for name in ("n1", "n2"):
        planned.server.store.put(PODS, pod(f"on-{name}", {WHOLE: "1"}, on=name))
    published: list[set[str | None]] = []

    def is_second_eviction(request: Request) -> bool:
        if not is_eviction(request):
            return False
        assert live.snapshot is not None
        published.append({live.snapshot.planned.node_of(f"uid-{name}") for name in "ab"})
        return len(published) > 1

    planned.server.faults.place(Refuse(503, retry_after_s=60), is_second_eviction, times=None)
    planned.add("a", "b", priority=10)

    def evictions() -> list[str]:
        return [each.path.split("/")[-2] for each in planned.server.log.all(is_eviction)]

    live = planned.extender(PREEMPTING)
    eventually(lambda: len(evictions()) == 2)
    kept = [live.locked.cache.kept(f"uid-{name}") for name in "ab"]
    assert {each.node for each in kept if each is not None} == {"n1", "n2"}
    assert published == [{"n1", "n2"}] * 2
    first, second = evictions()
    assert "deletionTimestamp" in planned.get(first)["metadata"]
    assert "deletionTimestamp" not in planned.get(second)["metadata"]

    def lasts() -> bool:
        """Beyond the pause that the API server asked for."""
        again = live.locked.cache.kept("uid-a")
        return again is not None and again.until > time.monotonic() + 60

    eventually(lambda: own_writes(live).is_gone(f"uid-{first}") and lasts())


def test_a_gang_whose_gates_are_refused_holds_up_no_other(planned: Planned) -> None:
    planned.add_nodes("n1", "n2", "n3", "n4", "n5")
    refused = planned.server.faults.place(
        Refuse(403), lambda each: is_lift(each) and each.path.endswith(("/b", "/alone1")), times=None
    )
    planned.add("a", "b", priority=10)
    planned.add("c", "d", gang="other")
    planned.add("alone1", "alone2", size=1)
    planned.extender(GANGS)
    eventually(lambda: planned.gated() == {"b", "alone1"})
    eventually(lambda: planned.events("GPUGangNotStarting") == {"b", "alone1"})
    lifts = [each.path for each in planned.server.log.all(is_lift)]
    assert len(lifts) == len(set(lifts)), "a refused removal was repeated at once"
    refused.lift()


def test_a_gate_that_went_is_known_though_another_one_fails(planned: Planned) -> None:
    planned.add_nodes("n1", "n2")
    planned.server.faults.place(
        Refuse(503, retry_after_s=60), lambda each: is_lift(each) and each.path.endswith("/b"), times=None
    )
    planned.add("a", "b")
    live = planned.extender(GANGS)
    eventually(lambda: planned.gated() == {"b"})
    written = own_writes(live)
    eventually(lambda: "uid-a" in written._by_uid and written._by_uid["uid-a"].lifted)
    eventually(lambda: planned.events("GPUGangStarting") == {"a"})


def test_evictions_that_fail_hold_up_no_other_gang(planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a webhook for some namespaces hangs."""
    monkeypatch.setattr("scheduler_ext.features.gangs.live.gang_calls._CALL_S", 0.2)
    planned.add_nodes("n1", "n2", "n3")
    planned.server.faults.place(Hang(), lambda each: "/eviction" in each.path, times=None)
    planned.add("a", "b", status=started(time.time() - 1), ungated=True)
    planned.bind("a", "n1")
    planned.add("c", "d", gang="other")
    planned.extender(GANGS)
    eventually(lambda: planned.gated() == set())


def test_a_policy_that_names_no_status_refuses_the_end_of_a_gate(planned: Planned) -> None:
    """A ValidatingAdmissionPolicy without a reason answers 422, as for a pod that has changed."""
    planned.add_nodes("n1", "n2")
    denied = "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no"
    planned.server.faults.place(Refuse(422, "Invalid", denied), is_lift, times=None)
    planned.add("a", "b")
    planned.extender(GANGS)
    eventually(lambda: planned.events("GPUGangNotStarting") == {"a", "b"})


def test_no_gate_goes_while_a_nomination_fails(planned: Planned) -> None:
    planned.add_nodes("n1", "n2")
    fault = planned.server.faults.place(
        Refuse(503), lambda each: is_nomination(each) and "/b/" in each.path, times=None
    )
    planned.add("a", "b")
    planned.extender(GANGS)
    eventually(lambda: "a" in planned.places())
    eventually(lambda: fault.hits >= 2)
    assert planned.gated() == {"a", "b"}
    fault.lift()
    eventually(lambda: planned.gated() == set())


@pytest.mark.parametrize("status", [403, 409])
def test_a_gang_whose_nominations_are_refused_keeps_no_room_from_others(
    planned: Planned, status: int
) -> None:
    """As by a policy of the namespace, or where a manifest has the planner's annotations (409)."""
    planned.add_nodes("n1", "n2")
    planned.server.faults.place(
        Refuse(status), lambda each: is_nomination(each) and "/b/" in each.path, times=None
    )
    planned.add("a", "b", priority=10)
    planned.add("c", "d", gang="other")
    live = planned.extender(GANGS)
    eventually(lambda: planned.gated() == {"a", "b"})
    refusal = f"pod b: the API server refuses its nomination: {status}"
    eventually(lambda: refusal in waits_for(live))
