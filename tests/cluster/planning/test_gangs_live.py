"""Gangs of a live inventory, on an API server with faults: what is written, in which order, and what a new
extender does with what it finds."""

from __future__ import annotations

import time
from collections.abc import Callable

from scheduler_ext.core.planning.plan import State
from scheduler_ext.wire.config import Configuration, NominateSection
from scheduler_ext.wire.times import time_text
from tests.cluster.api.api_paths import PODS
from tests.cluster.api.api_requests import writes
from tests.cluster.following import eventually
from tests.cluster.planning.gangs_followed import (
    OURS,
    Cluster,
    is_lift,
)


def test_all_members_are_nominated_before_a_gate_goes(make: Callable[..., Cluster]) -> None:
    cluster = make("n1", "n2")
    cluster.add("a")
    cluster.add("b")
    cluster.extender()
    eventually(lambda: cluster.gated() == set())
    assert {*cluster.places().values()} == {"n1", "n2"}
    order = [
        "lift" if is_lift(each) else "nominate" for each in cluster.server.log.all(writes(PODS, "PATCH"))
    ]
    assert order == ["nominate", "nominate", "lift", "lift"]
    assert f"{OURS}gang-start-by" in cluster.get("a")["metadata"]["annotations"]


def test_no_gate_goes_while_the_gang_does_not_fit(make: Callable[..., Cluster]) -> None:
    cluster = make("n1")
    cluster.add("a")
    cluster.add("b")
    live = cluster.extender()
    eventually(lambda: any("1 of 2 members fit" in note for note in live.notes_on("uid-a")))
    assert (cluster.gated(), cluster.places()) == ({"a", "b"}, {})
    assert live.planning is not None
    assert {entry.state for entry in live.planning.plan().entries} == {State.UNSCHEDULABLE}
    cluster.add_node("n2")
    eventually(lambda: cluster.gated() == set())


def test_an_extender_that_is_no_longer_active_does_not_say_what_gangs_lacked(
    make: Callable[..., Cluster],
) -> None:
    cluster = make("n1")
    cluster.add("a")
    cluster.add("b")
    live = cluster.extender()
    eventually(lambda: bool(live.notes_on("uid-a")))
    planning = live.planning
    assert planning is not None
    planning.stop(5.0)
    planning._give_up()
    assert live.notes_on("uid-a") == ()


def test_a_new_extender_goes_on_after_a_part_of_the_gates_went(make: Callable[..., Cluster]) -> None:
    cluster = make("n1", "n2")
    later = time_text(time.time() + 100)
    planned = '{"node":"%s","until":"' + later + '"}'
    for name, place, ungated in (("a", "n1", True), ("b", "n2", False)):
        notes = {f"{OURS}gang-start-by": later, f"{OURS}planned": planned % place}
        cluster.add(name, notes=notes, ungated=ungated)
        cluster.server.store.update(
            PODS,
            name,
            lambda old, at=place: old | {"status": old["status"] | {"nominatedNodeName": at}},  # type: ignore[misc]
            "default",
        )
    cluster.extender()
    eventually(lambda: cluster.gated() == set())
    assert cluster.places() == {"a": "n1", "b": "n2"}


def test_a_late_gang_is_evicted_whole(make: Callable[..., Cluster]) -> None:
    cluster = make("n1")
    past = {f"{OURS}gang-start-by": time_text(time.time() - 1)}
    cluster.add("a", notes=past, ungated=True)
    cluster.add("b", notes=past, ungated=True)
    cluster.bind("a", "n1")
    cluster.extender()
    eventually(lambda: all("deletionTimestamp" in cluster.get(each)["metadata"] for each in "ab"))


def test_the_deadline_goes_once_all_members_run(make: Callable[..., Cluster]) -> None:
    cluster = make("n1", "n2")
    cluster.add("a")
    cluster.add("b")
    cluster.extender()
    eventually(lambda: cluster.gated() == set())
    for name, place in cluster.places().items():
        cluster.bind(name, place)
    eventually(
        lambda: (
            not any(f"{OURS}gang-start-by" in cluster.get(name)["metadata"]["annotations"] for name in "ab")
        )
    )


def test_pods_of_other_schedulers_stay_as_they_are(make: Callable[..., Cluster]) -> None:
    cluster = make("n1")
    cluster.add("a", size=1, schedulerName="other")
    cluster.add("b", size=1)
    cluster.extender()
    eventually(lambda: "b" not in cluster.gated())
    assert cluster.gated() == {"a"}


def test_off_means_off(make: Callable[..., Cluster]) -> None:
    cluster = make("n1", "n2")
    cluster.add("a")
    cluster.add("b")
    live = cluster.extender(Configuration(nominate=NominateSection(enabled=True)))
    assert live.gang_pods is None
    assert cluster.gated() == {"a", "b"}
    assert cluster.server.log.all(writes(PODS)) == []
