"""Gangs of a live inventory: what is written, in which order, and what a new extender does with what it
finds."""

from __future__ import annotations

import json
import time

from scheduler_ext.core.filters.counts import GpuCount
from scheduler_ext.core.framework.refusal import KEPT_FOR_GANG
from scheduler_ext.features.gangs.planning.gang_bounds import Keeping
from scheduler_ext.features.gangs.planning.gang_failures import Remembered
from scheduler_ext.features.gangs.planning.plan import State
from scheduler_ext.features.gangs.settings import GangsSection
from scheduler_ext.features.gangs.wire.nomination import START_BY, nomination
from scheduler_ext.wire.times import time_text
from tests.cluster.api.api_paths import PODS
from tests.cluster.api.api_requests import writes
from tests.cluster.following import eventually
from tests.features.gangs.live.planned import (
    GANGS,
    OURS,
    WHOLE,
    Planned,
    entries,
    is_lift,
    planning,
    serving,
    started,
    states,
    waits_for,
)
from tests.kube_objects import pod


def test_the_life_of_a_gang(planned: Planned) -> None:
    planned.add_nodes("n1")
    planned.add("a", "b")
    planned.add("of-others", size=1, schedulerName="other")
    live = planned.extender(GANGS)
    eventually(lambda: "1 of 2 members fit" in waits_for(live))
    assert (planned.gated(), planned.places()) == ({"a", "b", "of-others"}, {})
    assert set(states(live).values()) == {State.UNSCHEDULABLE}
    planned.add_nodes("n2")
    eventually(lambda: planned.gated() == {"of-others"})
    assert {*planned.places().values()} == {"n1", "n2"}
    order = [is_lift(each) for each in planned.server.log.all(writes(PODS, "PATCH"))]
    assert order == [False, False, True, True], "all members are nominated before a gate goes"
    assert has_deadline(planned, "a")
    for name, place in planned.places().items():
        planned.bind(name, place)
    # Once all members run, the deadline goes.
    eventually(lambda: not any(has_deadline(planned, name) for name in "ab"))


def has_deadline(planned: Planned, name: str) -> bool:
    conditions = planned.get(name)["status"].get("conditions", ())
    return any(each["type"] == START_BY for each in conditions)


def test_an_extender_that_is_no_longer_active_does_not_say_what_gangs_lacked(planned: Planned) -> None:
    planned.add_nodes("n1")
    planned.add("a", "b")
    live = planned.extender(GANGS)
    eventually(lambda: waits_for(live) != "")
    planning(live).stop(5.0)
    planning(live)._give_up()
    assert waits_for(live) == ""


def test_a_gang_that_is_short_of_cpu_says_so_everywhere(planned: Planned) -> None:
    planned.add_nodes("n1", gpus=2)
    planned.add("a", "b", resources={"requests": {"cpu": "40"}})
    live = planned.extender(GANGS)
    short = "1 of 2 members fit; no node for 1 × nvidia.com/gpu: 1 Insufficient cpu"
    eventually(lambda: short in waits_for(live))
    assert [each.refusals for each in entries(live).values()] == [{"Insufficient cpu": 1}] * 2
    wait = serving(live).wait_of("uid-b")
    assert wait is not None
    assert wait.reason == "Insufficient cpu"
    eventually(lambda: planned.events("GPUGangWaiting", short) == {"a", "b"})


def test_a_new_extender_goes_on_after_a_part_of_the_gates_went(planned: Planned) -> None:
    planned.add_nodes("n1", "n2")
    later = time_text(time.time() + 100)
    for name, place, ungated in (("a", "n1", True), ("b", "n2", False)):
        kept = f'{{"node":"{place}","until":"{later}"}}'
        status = started(time.time() + 100) | {"nominatedNodeName": place}
        planned.add(name, annotations={f"{OURS}planned": kept}, ungated=ungated, status=status)
    planned.extender(GANGS)
    eventually(lambda: planned.gated() == set())
    assert planned.places() == {"a": "n1", "b": "n2"}


def test_a_late_gang_is_evicted_whole(planned: Planned) -> None:
    planned.add_nodes("n1")
    planned.add("a", "b", status=started(time.time() - 1), ungated=True)
    planned.bind("a", "n1")
    planned.extender(GANGS)
    eventually(lambda: all("deletionTimestamp" in planned.get(each)["metadata"] for each in "ab"))


def test_a_new_extender_knows_why_the_last_start_failed(planned: Planned) -> None:
    """So the gang is not evicted again for what kube-scheduler said of its node."""
    said = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "it has to be blue",
    }
    late = started(time.time() - 1)["conditions"]
    planned.add_nodes("n1", "n2")
    planned.add("a", status={"conditions": late}, ungated=True)
    planned.bind("a", "n1")
    kept = f'{{"node":"n2","until":"{time_text(time.time() + 100)}"}}'
    status = {"conditions": [*late, said], "nominatedNodeName": "n2"}
    planned.add("b", annotations={f"{OURS}planned": kept}, ungated=True, status=status)
    first = planned.extender(GANGS)
    eventually(lambda: all("deletionTimestamp" in planned.get(each)["metadata"] for each in "ab"))
    for name in "ab":
        planned.server.store.delete(PODS, name, "default")
    planned.add("c", "d")
    eventually(lambda: "on n2, pod b: it has to be blue" in remembered(planned, "cd"))
    first.stop()
    second = planned.extender(GANGS)
    eventually(lambda: "on n2, pod b: it has to be blue" in waits_for(second, "c"))
    assert (planned.gated(), planned.places()) == ({"c", "d"}, {})


def test_a_withdrawn_nomination_leaves_a_condition_without_a_deadline(planned: Planned) -> None:
    """Without it, the API server would remove the conditions that it made itself from a gated pod."""
    planned.add_nodes("n1")
    later = time.time() + 100
    for name, place in (("a", "n1"), ("b", "n2")):
        kept = f'{{"node":"{place}","until":"{time_text(later)}"}}'
        status = started(later) | {"nominatedNodeName": place}
        planned.add(name, annotations={f"{OURS}planned": kept}, status=status)
    planned.extender(GANGS)

    def said(name: str) -> list[str]:
        written = [
            json.loads(each.body)["status"]
            for each in planned.server.log.all(writes(PODS, "PATCH"))
            if each.path.endswith(f"/{name}/status")
        ]
        return [each["status"] for status in written for each in status["conditions"]]

    eventually(lambda: {*said("a")} == {*said("b")} == {"False"})


def test_a_new_extender_knows_since_when_places_are_kept(planned: Planned) -> None:
    planned.add_nodes("n1", "n2")
    planned.server.store.put(PODS, pod("r", {WHOLE: "1"}, on="n2"))
    known = Remembered(keeping=Keeping(time.time() - 7200, 1, time.time() + 3600))
    status = json.loads(nomination("default", "a", "uid-a", None, remembered=known))["status"]
    planned.add("a", status=status)
    planned.add("b")
    live = planned.extender(GangsSection(enabled=True, keep_percent=100))
    eventually(lambda: entries(live)["a"].state is State.NOT_KEPT)


def test_a_gang_that_comes_first_starts_while_another_one_waits_for_places(planned: Planned) -> None:
    """It waits for no search: that takes long beside many pods, and rests after it."""
    planned.add_nodes("n1", "n2", "n3")
    planned.server.store.put(PODS, pod("r", {WHOLE: "1"}, on="n1"))
    planned.add("a", "b", "c", size=3)
    live = planned.extender(GangsSection(enabled=True, keep_percent=100))
    eventually(lambda: states(live).get("a") is State.RESERVED)
    gangs = planning(live).gangs
    assert gangs is not None
    gangs._search_at = float("inf")
    planned.add("d", "e", gang="urgent", priority=10)
    eventually(lambda: planned.gated() == {"a", "b", "c"})
    assert {*planned.places()} == {"d", "e"}
    assert {states(live)[name] for name in "abc"} == {State.RESERVED}


def remembered(planned: Planned, names: str) -> str:
    """What the conditions of these members say."""
    conditions = [each for name in names for each in planned.get(name)["status"].get("conditions", ())]
    return " ".join(each["message"] for each in conditions if each["type"] == START_BY)


def test_pods_that_claim_to_have_been_started_come_after_pods_of_higher_priority(planned: Planned) -> None:
    """Their owner left out the gate, and wrote what the planner writes wherever a pod's owner can."""
    later = time_text(time.time() + 3600)
    kept = json.dumps({"node": "n1", "until": later})
    forged = {START_BY: later, f"{OURS}planned": kept, f"{OURS}gang-deadline": "24h"}
    planned.add("a", "b", annotations=forged, labels={START_BY: "x"}, ungated=True, priority=-100)
    planned.add("c", "d", gang="other", priority=10)
    planned.add_nodes("n1")
    live = planned.extender(GANGS)
    eventually(lambda: len(states(live)) == 4)
    planned.add_nodes("n2")
    eventually(lambda: planned.gated() == set())
    assert planned.places().keys() == {"c", "d"}


def test_a_pod_that_waits_behind_a_gang_has_a_reason_of_its_own(planned: Planned) -> None:
    planned.add_nodes("n1", "n2")
    planned.server.store.put(PODS, pod("r", {WHOLE: "1"}, on="n2"))
    planned.add("a", "b", priority=1)
    planned.wait("z")
    live = planned.extender(GangsSection(enabled=True, keep_percent=100))
    eventually(lambda: entries(live)["z"].state is State.BEHIND)
    entry = entries(live)["z"]
    assert entry.reason == "behind gang default/train, for which places are kept"
    assert entry.refusals == {KEPT_FOR_GANG.text: 1, GpuCount.reason.text: 1}
    assert serving(live).group_of("uid-a") == entries(live)["a"].gang


def test_a_gang_that_may_wait_for_ever_keeps_half_of_the_gpus_at_most(planned: Planned) -> None:
    """The pod that it waits for states no end, so a younger pod has the other GPU."""
    planned.add_nodes("n1", "n2")
    planned.server.store.put(PODS, pod("r", {WHOLE: "1"}, on="n2"))
    planned.add("a", "b")
    live = planned.extender(GANGS)
    eventually(lambda: "at most 50 % wait" in waits_for(live))
    eventually(lambda: planned.events("GPUGangWaiting") == {"a", "b"})
    planned.wait("z")
    eventually(lambda: planned.places() == {"z": "n1"})
