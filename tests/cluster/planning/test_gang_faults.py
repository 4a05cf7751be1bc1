"""What becomes of gangs where the API server refuses writes."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from scheduler_ext.wire.times import time_text
from tests.cluster.api.api_faults import Hang, Refuse
from tests.cluster.api.api_paths import PODS
from tests.cluster.api.api_requests import Request
from tests.cluster.following import eventually
from tests.cluster.planning.gangs_followed import (
    OURS,
    PREEMPTING,
    WHOLE,
    Cluster,
    is_eviction,
    is_lift,
    is_nomination,
)
from tests.kube_objects import pod


def test_what_victims_leave_is_kept_for_the_gang_though_an_eviction_fails(
    make: Callable[..., Cluster],
) -> None:
    cluster = make("n1", "n2")
    for name in ("n1", "n2"):
        cluster.server.store.put(PODS, pod(f"on-{name}", {WHOLE: "1"}, on=name))
    published: list[set[str | None]] = []

    def is_second_eviction(request: Request) -> bool:
        if not is_eviction(request):
            return False
        assert live.snapshot is not None
        published.append({live.snapshot.planned.node_of(f"uid-{name}") for name in "ab"})
        return len(published) > 1

    cluster.server.faults.place(Refuse(503, retry_after_s=60), is_second_eviction, times=None)
    cluster.add("a", priority=10)
    cluster.add("b", priority=10)

    def evictions() -> list[str]:
        return [each.path.split("/")[-2] for each in cluster.server.log.all(is_eviction)]

    live = cluster.extender(PREEMPTING)
    eventually(lambda: len(evictions()) == 2)
    kept = [live.locked.cache.kept(f"uid-{name}") for name in "ab"]
    assert {each.node for each in kept if each is not None} == {"n1", "n2"}
    assert published == [{"n1", "n2"}] * 2
    first, second = evictions()
    assert "deletionTimestamp" in cluster.get(first)["metadata"]
    assert "deletionTimestamp" not in cluster.get(second)["metadata"]

    def is_noted() -> bool:
        assert live.planning is not None
        assert live.planning.gangs is not None
        return live.planning.gangs.writes.own.is_gone(f"uid-{first}")

    def lasts() -> bool:
        """Beyond the pause that the API server asked for."""
        again = live.locked.cache.kept("uid-a")
        return again is not None and again.until > time.monotonic() + 60

    eventually(lambda: is_noted() and lasts())


def test_a_gang_whose_gates_are_refused_holds_up_no_other(make: Callable[..., Cluster]) -> None:
    cluster = make("n1", "n2", "n3", "n4", "n5")
    other = {f"{OURS}gang": "other"}
    refused = cluster.server.faults.place(
        Refuse(403), lambda each: is_lift(each) and each.path.endswith(("/b", "/alone1")), times=None
    )
    cluster.add("a", priority=10)
    cluster.add("b", priority=10)
    cluster.add("c", notes=other)
    cluster.add("d", notes=other)
    cluster.add("alone1", size=1)
    cluster.add("alone2", size=1)
    cluster.extender()
    eventually(lambda: cluster.gated() == {"b", "alone1"})
    eventually(
        lambda: (
            {each["regarding"]["name"] for each in cluster.events("GPUGangNotStarting")} == {"b", "alone1"}
        )
    )
    lifts = [each.path for each in cluster.server.log.all(is_lift)]
    assert len(lifts) == len(set(lifts)), "a refused removal was repeated at once"
    refused.lift()


def test_a_gate_that_went_is_known_though_another_one_fails(make: Callable[..., Cluster]) -> None:
    cluster = make("n1", "n2")
    cluster.server.faults.place(
        Refuse(503, retry_after_s=60), lambda each: is_lift(each) and each.path.endswith("/b"), times=None
    )
    cluster.add("a")
    cluster.add("b")
    live = cluster.extender()
    eventually(lambda: cluster.gated() == {"b"})
    planning = live.planning
    assert planning is not None
    assert planning.gangs is not None
    written = planning.gangs.writes.own
    eventually(lambda: "uid-a" in written._by_uid and written._by_uid["uid-a"].lifted)
    eventually(lambda: [each["regarding"]["name"] for each in cluster.events("GPUGangStarting")] == ["a"])


def test_evictions_that_fail_hold_up_no_other_gang(
    make: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a webhook for some namespaces hangs."""
    monkeypatch.setattr("scheduler_ext.cluster.planning.gang_calls._CALL_S", 0.2)
    cluster = make("n1", "n2", "n3")
    cluster.server.faults.place(Hang(), lambda each: "/eviction" in each.path, times=None)
    late = {f"{OURS}gang-start-by": time_text(time.time() - 1)}
    cluster.add("a", notes=late, ungated=True)
    cluster.add("b", notes=late, ungated=True)
    cluster.bind("a", "n1")
    other = {f"{OURS}gang": "other"}
    cluster.add("c", notes=other)
    cluster.add("d", notes=other)
    cluster.extender()
    eventually(lambda: cluster.gated() == set())


def test_a_policy_that_names_no_status_refuses_the_end_of_a_gate(make: Callable[..., Cluster]) -> None:
    """A ValidatingAdmissionPolicy without a reason answers 422, as for a pod that has changed."""
    cluster = make("n1", "n2")
    denied = "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no"
    cluster.server.faults.place(Refuse(422, "Invalid", denied), is_lift, times=None)
    cluster.add("a")
    cluster.add("b")
    cluster.extender()
    eventually(lambda: len(cluster.events("GPUGangNotStarting")) == 2)


def test_no_gate_goes_while_a_nomination_fails(make: Callable[..., Cluster]) -> None:
    cluster = make("n1", "n2")
    fault = cluster.server.faults.place(
        Refuse(503), lambda each: is_nomination(each) and "/b/" in each.path, times=None
    )
    cluster.add("a")
    cluster.add("b")
    cluster.extender()
    eventually(lambda: "a" in cluster.places())
    eventually(lambda: fault.hits >= 2)
    assert cluster.gated() == {"a", "b"}
    fault.lift()
    eventually(lambda: cluster.gated() == set())


@pytest.mark.parametrize("status", [403, 409])
def test_a_gang_whose_nominations_are_refused_keeps_no_room_from_others(
    make: Callable[..., Cluster], status: int
) -> None:
    """As by a policy of the namespace, or where a manifest has the planner's annotations (409)."""
    cluster = make("n1", "n2")
    cluster.server.faults.place(
        Refuse(status), lambda each: is_nomination(each) and "/b/" in each.path, times=None
    )
    cluster.add("a", priority=10)
    cluster.add("b", priority=10)
    other = {f"{OURS}gang": "other"}
    cluster.add("c", notes=other)
    cluster.add("d", notes=other)
    live = cluster.extender()
    eventually(lambda: cluster.gated() == {"a", "b"})
    refusal = f"pod b: the API server refuses its nomination: {status}"
    eventually(lambda: any(refusal in note for note in live.notes_on("uid-a")))
