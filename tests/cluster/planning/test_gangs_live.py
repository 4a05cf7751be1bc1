"""Gangs of a live inventory: what is written, in which order, and what a new extender does with what it
finds."""

from __future__ import annotations

import time

from scheduler_ext.core.planning.plan import State
from scheduler_ext.wire.times import time_text
from tests.cluster.api.api_paths import PODS
from tests.cluster.api.api_requests import writes
from tests.cluster.following import eventually
from tests.cluster.planning.planned import GANGS, OURS, Planned, is_lift, planning, states


def test_the_life_of_a_gang(planned: Planned) -> None:
    planned.add_nodes("n1")
    planned.add("a", "b")
    planned.add("of-others", size=1, schedulerName="other")
    live = planned.extender(GANGS)
    eventually(lambda: any("1 of 2 members fit" in note for note in live.notes_on("uid-a")))
    assert (planned.gated(), planned.places()) == ({"a", "b", "of-others"}, {})
    assert set(states(live).values()) == {State.UNSCHEDULABLE}
    planned.add_nodes("n2")
    eventually(lambda: planned.gated() == {"of-others"})
    assert {*planned.places().values()} == {"n1", "n2"}
    order = [is_lift(each) for each in planned.server.log.all(writes(PODS, "PATCH"))]
    assert order == [False, False, True, True], "all members are nominated before a gate goes"
    assert f"{OURS}gang-start-by" in planned.get("a")["metadata"]["annotations"]
    for name, place in planned.places().items():
        planned.bind(name, place)
    # Once all members run, the deadline goes.
    deadline = f"{OURS}gang-start-by"
    eventually(lambda: not any(deadline in planned.get(name)["metadata"]["annotations"] for name in "ab"))


def test_an_extender_that_is_no_longer_active_does_not_say_what_gangs_lacked(planned: Planned) -> None:
    planned.add_nodes("n1")
    planned.add("a", "b")
    live = planned.extender(GANGS)
    eventually(lambda: bool(live.notes_on("uid-a")))
    planning(live).stop(5.0)
    planning(live)._give_up()
    assert live.notes_on("uid-a") == ()


def test_a_new_extender_goes_on_after_a_part_of_the_gates_went(planned: Planned) -> None:
    planned.add_nodes("n1", "n2")
    later = time_text(time.time() + 100)
    for name, place, ungated in (("a", "n1", True), ("b", "n2", False)):
        kept = f'{{"node":"{place}","until":"{later}"}}'
        notes = {f"{OURS}gang-start-by": later, f"{OURS}planned": kept}
        planned.add(name, annotations=notes, ungated=ungated, status={"nominatedNodeName": place})
    planned.extender(GANGS)
    eventually(lambda: planned.gated() == set())
    assert planned.places() == {"a": "n1", "b": "n2"}


def test_a_late_gang_is_evicted_whole(planned: Planned) -> None:
    planned.add_nodes("n1")
    past = {f"{OURS}gang-start-by": time_text(time.time() - 1)}
    planned.add("a", "b", annotations=past, ungated=True)
    planned.bind("a", "n1")
    planned.extender(GANGS)
    eventually(lambda: all("deletionTimestamp" in planned.get(each)["metadata"] for each in "ab"))
