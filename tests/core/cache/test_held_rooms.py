"""Rooms that an operator holds: for whom, against whom, and until when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.held_rooms import HeldRoom
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.node.node import BoundPod, PendingPod
from scheduler_ext.core.node.nominated import with_nominated_pods
from tests.core.cache.seen import cache_with, info_of
from tests.core.reported import WHOLE, ask, bound, device, wants

UNTIL = 100.0


def waiting(name: str, gpus: int = 2) -> BoundPod:
    return bound(name, wants(gpus, WHOLE), priority=3)


def cache_holding(*rooms: HeldRoom) -> Cache:
    """A node of two GPUs, and the waiting pod w."""
    built = cache_with(device(0), device(1))
    built.update_pending(PendingPod(waiting("w"), "1", ""))
    built.update_held("a", rooms)
    return built


def held_against(cache: Cache, uid: str, priority: int) -> int:
    """The GPUs of node a that a pod of that uid and priority finds taken."""
    info = info_of(cache)
    return sum(
        ask.count for pod in with_nominated_pods(info, uid, priority).pods for ask in pod.request.units
    )


FOR_W = HeldRoom("ns/w", UNTIL, priority=10)


@pytest.mark.parametrize(
    ("room", "uid", "priority", "taken"),
    [
        pytest.param(FOR_W, "other", 10, 2, id="a pod of the priority finds it taken"),
        pytest.param(FOR_W, "other", 11, 0, id="a more important pod does not"),
        pytest.param(FOR_W, "uid-w", 3, 0, id="the pod itself does not"),
        pytest.param(
            HeldRoom("ns/w", UNTIL, 10, ask(wants(1, WHOLE))), "uid-w", 3, 1, id="an amount is for no pod"
        ),
        pytest.param(HeldRoom("ns/v", UNTIL, 10), "other", 0, 0, id="a pod that does not wait has none"),
    ],
)
def test_a_room_counts_like_that_of_a_nominated_pod(
    room: HeldRoom, uid: str, priority: int, taken: int
) -> None:
    assert held_against(cache_holding(room), uid, priority) == taken


def test_a_room_ends_with_its_time_and_the_node_changes() -> None:
    cache = cache_holding(FOR_W)
    assert set(cache.take_changes()) == {"a"}
    cache.tick(UNTIL - 1)
    assert not cache.has_changes
    cache.tick(UNTIL)
    assert set(cache.take_changes()) == {"a"}
    assert held_against(cache, "other", 0) == 0


def test_a_room_that_is_written_again_lasts_longer_without_a_change() -> None:
    cache = cache_holding(FOR_W)
    cache.take_changes()
    cache.update_held("a", [replace(FOR_W, until=2 * UNTIL)])
    cache.tick(UNTIL)
    assert not cache.has_changes
    assert held_against(cache, "other", 0) == 2


@pytest.mark.parametrize("gone", [True, False], ids=["the pod is deleted", "the pod is bound elsewhere"])
def test_a_room_ends_with_the_waiting_of_its_pod(gone: bool) -> None:
    cache = cache_holding(FOR_W)
    cache.update_node("b", NodeRecord("uid-b", {WHOLE: 2}), 0.0)
    cache.take_changes()
    if gone:
        cache.remove_pod("uid-w", 1.0)
    else:
        cache.confirm(waiting("w"), "b", 1.0)
    assert "a" in cache.take_changes()
    assert held_against(cache, "other", 0) == 0


def test_a_room_begins_when_its_pod_arrives() -> None:
    cache = cache_holding(HeldRoom("ns/v", UNTIL, 10))
    cache.take_changes()
    cache.update_pending(PendingPod(waiting("v", 1), "1", ""))
    assert set(cache.take_changes()) == {"a"}
    assert held_against(cache, "other", 0) == 1


def test_a_pod_that_is_nominated_there_too_counts_once() -> None:
    cache = cache_holding(FOR_W)
    cache.update_pending(PendingPod(waiting("w"), "2", "", nominated_node="a"))
    assert held_against(cache, "other", 0) == 2
