"""The places of a planner: kept in the ledger until their time, against pods of no higher priority."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.intent import Intent
from scheduler_ext.core.cache.kept_places import KeptPlace, KeptPlaces
from scheduler_ext.core.cache.ledger import Cause
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.node.node import BoundPod, PendingPod, PlannedNode
from tests.core.cache.seen import cache_with, info_of
from tests.core.reported import WHOLE, bound, device, wants

POD = bound("p", wants(1, WHOLE))
WAITING = PendingPod(POD, "1", "ours")
OURS = replace(WAITING, nominated_node="a", planned=PlannedNode("a", 0.0))
THEIRS = replace(OURS, nominated_node="b")


def cache() -> Cache:
    made = cache_with(device(0))
    made.update_node("b", NodeRecord(allocatable={WHOLE: 1}), 0.0)
    made.update_report("b", Report((device(0),)), 0.0, 0.0)
    made.take_changes()
    return made


def planned(of: Cache) -> dict[str, list[str]]:
    """The pods that a place is kept for, by node."""
    return {info.name: [pod.uid for pod in info.planned] for info in of.infos() if info.planned}


HERE = {"a": [POD.uid]}


@pytest.mark.parametrize(
    ("event", "left"),
    [
        pytest.param(lambda of: of.update_pending(WAITING), HERE, id="an older message about the pod"),
        pytest.param(lambda of: of.update_pending(OURS, 9.0), HERE, id="the pod with this nomination"),
        pytest.param(
            lambda of: (of.update_pending(OURS, 9.0), of.update_pending(WAITING)),
            {},
            id="a message that the nomination is gone again",
        ),
        pytest.param(lambda of: of.update_pending(THEIRS), {}, id="a nomination by another component"),
        pytest.param(
            lambda of: of.update_pending(replace(WAITING, pod=replace(POD, terminating=True))),
            {},
            id="the end of the pod",
        ),
        pytest.param(lambda of: of.tick(5.0), {}, id="its time is over"),
        pytest.param(lambda of: of.confirm(POD, "b", 1.0), {}, id="a binding"),
        pytest.param(lambda of: of.remove_pod(POD.uid, 1.0), {}, id="a deletion"),
        pytest.param(lambda of: of.assume(Intent(POD, "1", "e"), "b"), {}, id="a binding in flight"),
        pytest.param(lambda of: of.unplan(POD.uid), {}, id="the planner itself"),
        pytest.param(lambda of: of.plan(POD, "b", 5.0), {"b": [POD.uid]}, id="another plan"),
        pytest.param(
            lambda of: (of.update_pending(OURS, 9.0), of.plan(POD, "b", 5.0), of.update_pending(OURS, 9.0)),
            {"b": [POD.uid]},
            id="the former nomination, late",
        ),
    ],
)
def test_a_place_is_kept_until(event: Callable[[Cache], object], left: dict[str, list[str]]) -> None:
    of = cache()
    of.update_pending(WAITING)
    of.plan(POD, "a", 5.0)
    assert planned(of) == HERE
    event(of)
    assert planned(of) == left


def test_every_extender_keeps_the_place_that_is_written_on_a_pod() -> None:
    of = cache()
    of.update_pending(OURS, 5.0)
    assert planned(of) == HERE
    assert of.take_changes() == {"a": Cause.PROMISE}
    kept = of.kept(POD.uid)
    assert kept == KeptPlace(POD, "a", 5.0, written=True)
    assert of.all_kept() == [kept]
    assert info_of(of).nominated == ()


def test_what_a_dead_planner_wrote_is_kept_no_longer_than_it_said() -> None:
    of = cache()
    of.update_pending(OURS, None)
    assert planned(of) == {}
    assert info_of(of).nominated == ()


def test_the_chosen_gpus_stay_with_a_place() -> None:
    of = cache()
    placed = replace(POD, devices={"main": ("GPU-1",)})
    of.plan(placed, "a", 5.0)
    of.update_pending(OURS, 6.0)
    assert info_of(of).planned == (placed,)


def test_a_pod_that_is_bound_or_gone_gets_no_place() -> None:
    of = cache()
    of.confirm(POD, "a", 0.0)
    of.plan(POD, "b", 5.0)
    assert planned(of) == {}


_moves = st.lists(
    st.tuples(st.sampled_from("pqr"), st.sampled_from(("a", "b", "")), st.integers(0, 9)), max_size=12
)


@given(_moves, st.integers(0, 9))
def test_each_pod_has_one_place_at_most(moves: list[tuple[str, str, int]], now: int) -> None:
    places = KeptPlaces()
    expected: dict[str, tuple[str, int]] = {}
    for uid, node, until in moves:
        before = {name: places.on(name) for name in "ab"}
        if node:
            changed = places.keep(KeptPlace(replace(POD, uid=uid), node, until, written=False))
            expected[uid] = node, until
        else:
            changed = places.drop(uid)
            expected.pop(uid, None)
        assert set(changed) == {name for name in "ab" if places.on(name) != before[name]}
    assert {place.pod.uid: (place.node, place.until) for place in places} == expected
    assert set(places.over(now)) == {uid for uid, (_, until) in expected.items() if until <= now}
    for name in "ab":
        here: list[BoundPod] = list(places.on(name))
        assert [pod.uid for pod in here] == sorted(uid for uid, (node, _) in expected.items() if node == name)


AGAIN = replace(OURS, planned=PlannedNode("a", 5.0))
ELSEWHERE = replace(OURS, nominated_node="b", planned=PlannedNode("b", 5.0))


@pytest.mark.parametrize(
    ("event", "left"),
    [
        pytest.param(OURS, {}, id="another message of the same nomination"),
        pytest.param(AGAIN, HERE, id="the same place, written with another time"),
        pytest.param(ELSEWHERE, {"b": [POD.uid]}, id="another place"),
    ],
)
def test_a_place_that_was_given_up_stays_so_while_it_is_written(
    event: PendingPod, left: dict[str, list[str]]
) -> None:
    of = cache()
    of.update_pending(OURS, 9.0)
    assert planned(of) == HERE
    of.give_up(POD.uid)
    of.update_pending(event, 9.0)
    assert planned(of) == left


def test_a_pod_that_gave_up_a_place_keeps_the_next_one() -> None:
    of = cache()
    of.update_pending(OURS, 9.0)
    of.give_up(POD.uid)
    of.plan(POD, "b", 9.0)
    of.update_pending(replace(OURS, resource_version="2"), 9.0)
    assert planned(of) == {"b": [POD.uid]}
    # Another component nominates it, and the annotation of the first place is still there.
    of.update_pending(THEIRS)
    assert planned(of) == {}


@pytest.mark.parametrize("end", ["bound", "gone"])
def test_a_pod_that_is_bound_or_gone_waits_no_longer(end: str) -> None:
    of = cache()
    of.update_pending(WAITING)
    assert of.all_pending() == [WAITING]
    if end == "bound":
        of.confirm(POD, "a", 0.0)
    else:
        of.remove_pod(POD.uid, 0.0)
    assert of.all_pending() == []
    of.update_pending(WAITING)
    assert of.pending(POD.uid) is None
