"""The inventory behind its lock, and the writes about each node: subscribers, and the holdings that count."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from scheduler_ext.binding.locked_cache import NEVER_WRITTEN, LockedCache, Reserved
from scheduler_ext.core.cache.intent import Reservation
from scheduler_ext.core.request.request import ContainerRole
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import Configuration, MemorySection
from tests.binding.bind_states import EXTENDER, SHARE, Held, Pod, Setting, Written
from tests.core.reported import ask, wants
from tests.extender.preempting import asks_shares, nominated, preempt

SETTING = Setting({"n": ("g0", "g1"), "m": ("m0",)}, {"p": 600, "q": 600, "r": 600})
P, Q, R = (SETTING.pending(Pod(f"{name}-1", 1)) for name in "pqr")
KEY = ("p-1", "1")


def built(extender: Extender = EXTENDER) -> LockedCache:
    return SETTING.filled("me", extender)


def read(version: int, *intents: Held) -> Reservation:
    found = SETTING.reservation("n", Written(version, intents))
    assert found is not None
    return found


def reserved(locked: LockedCache, pending: object = P, node: str = "n") -> Reserved:
    found = locked.reserve(pending, node)  # type: ignore[arg-type]
    assert isinstance(found, Reserved), found
    return found


def held(locked: LockedCache, node: str = "n") -> dict[str, tuple[str, ...]]:
    info = locked.cache.info(node)
    assert info is not None
    return {pod.name: pod.devices["main"] for pod in info.pods if pod.holds}


class TestReserve:
    def test_a_place_is_promised_at_once(self) -> None:
        locked = built()
        assert reserved(locked).devices == {"main": ("g0",)}
        assert reserved(locked, Q).devices == {"main": ("g1",)}
        assert held(locked) == {"p": ("g0",), "q": ("g1",)}

    def test_where_it_does_not_fit_the_reason_is_given_and_nothing_promised(self) -> None:
        locked = built()
        reserved(locked, P, "m")
        assert locked.reserve(Q, "m") == "Insufficient GPU memory on one device"
        assert locked.reserve(Q, "nowhere") == "node(s) had no fresh GPU inventory"
        assert held(locked, "m") == {"p": ("m0",)}

    def test_the_kept_place_of_another_pod_holds_one_gpu_and_no_more(self) -> None:
        """Nobody has chosen a GPU for it yet: filter and bind choose the same one."""
        locked = built()
        locked.cache.plan(Q.pod, "n", math.inf)
        assert reserved(locked).devices.keys() == {"main"}
        locked.cache.plan(R.pod, "n", math.inf)
        locked.cache.forget(KEY, "n")
        assert locked.reserve(P, "n") == "Insufficient GPU memory on one device"

    @pytest.mark.parametrize("devices", [{}, {"main": ("g0",)}], ids=["of no gpu yet", "of a gpu"])
    def test_room_that_a_gang_still_waits_for_takes_no_gpu_from_pods_with_a_place(
        self, devices: dict[str, tuple[str, ...]]
    ) -> None:
        """However they are sorted: the planner gave the places beside that room."""
        locked = built()
        for pod in (P.pod, replace(Q.pod, expected=True, devices=devices), R.pod):
            locked.cache.plan(pod, "n", math.inf)
        assert reserved(locked, P).devices.keys() == {"main"}
        assert reserved(locked, R).devices.keys() == {"main"}

    def test_a_pod_keeps_its_place_for_a_second_try(self) -> None:
        """Its first Binding is refused, for example because the pod has changed."""
        locked = built()
        for pod in (P.pod, replace(Q.pod, expected=True), replace(R.pod, expected=True)):
            locked.cache.plan(pod, "n", math.inf)
        locked.withdraw(reserved(locked, P))
        assert reserved(locked, P).devices.keys() == {"main"}
        locked.cache.forget(KEY, "n")
        assert reserved(locked, P).devices.keys() == {"main"}

    def test_an_init_container_has_its_gpu_in_the_intent(self) -> None:
        """Beside its sidecar the pod requests more than its app: the promise has that amount."""
        locked = built()
        asked = ask(
            wants(100, SHARE, "log", ContainerRole.SIDECAR),
            wants(700, SHARE, "load", ContainerRole.INIT),
            wants(300, SHARE),
        )
        found = reserved(locked, replace(P, pod=replace(P.pod, request=asked)))
        [written] = locked.with_intent(found).intents
        assert written.pod.devices == {"log": ("g0",), "main": ("g0",), "load": ("g0",)}
        assert written.pod.request.shares == asked.shares
        rest = ask(wants(201, SHARE))
        assert reserved(locked, replace(Q, pod=replace(Q.pod, request=rest))).devices == {"main": ("g1",)}

    def test_an_intent_of_another_extender_is_repeated_in_our_name(self) -> None:
        locked = built()
        locked.fence(read(5, Held("p-1", "1", "g1", "you")), ())
        found = reserved(locked)
        assert (found.devices, found.again) == ({"main": ("g1",)}, True)
        assert [(i.uid, i.extender) for i in locked.with_intent(found).intents] == [("p-1", "me")]

    def test_where_its_place_was_given_away_it_is_refused(self) -> None:
        locked = built()
        reserved(locked, Q)
        locked.fence(read(5, Held("p-1", "1", "g0", "you")), ())
        assert locked.reserve(P, "n") == "pod ns/p on node n: GPU g0 would be promised 1200 of 1000 MiB"
        assert held(locked)["q"] == ("g0",)


class TestFence:
    def test_a_fence_is_known_after_a_read_or_write_until_it_is_invalidated(self) -> None:
        locked = built()
        assert locked.fence_of("n") is None
        locked.fence(Reservation("n"), ())
        assert locked.fence_of("n") == NEVER_WRITTEN
        locked.fence(read(7))
        assert (locked.fence_of("n"), locked.fence_of("m")) == ("7", None)
        locked.invalidate_fence("m")
        assert locked.fence_of("n") == "7"
        locked.invalidate_fence("n")
        assert locked.fence_of("n") is None
        locked.fence(read(8))
        locked.invalidate_fence()
        assert locked.fence_of("n") is None

    def test_a_read_of_a_node_outdates_earlier_decisions_there(self) -> None:
        locked = built()
        found = reserved(locked)
        locked.fence(Reservation("m", resource_version="4"), ())
        assert not locked.is_outdated(found)
        locked.fence(replace(locked.with_intent(found), resource_version="5"))
        assert not locked.is_outdated(found)
        locked.fence(read(6), ())
        assert locked.is_outdated(found)

    def test_all_that_is_open_is_written(self) -> None:
        locked = built()
        locked.fence(read(5, Held("q-1", "1", "g0", "you"), Held("r-1", "1", "g1", "you")), ())
        locked.forget(("r-1", "1"), "n")
        wanted = locked.with_intent(reserved(locked))
        assert [(i.uid, i.extender) for i in wanted.intents] == [("q-1", "you"), ("p-1", "me")]
        assert (wanted.resource_version, wanted.node_uid) == ("5", "uid-n")

    def test_what_another_bind_wrote_is_not_written_for_a_later_choice(self) -> None:
        """P waits for its turn while Q writes both, gives up, and comes back to another GPU."""
        locked = built()
        first, other = reserved(locked), reserved(locked, Q)
        wanted = replace(locked.with_intent(other), resource_version="6")
        locked.withdraw(first)
        reserved(locked, R)
        locked.withdraw(other)
        again = reserved(locked)
        assert (first.devices, again.devices) == ({"main": ("g0",)}, {"main": ("g1",)})
        locked.fence(wanted)
        assert not locked.is_written(again)

    @pytest.mark.parametrize("up", [False, True], ids=["down", "never written"])
    def test_without_a_version_it_is_created(self, up: bool) -> None:
        """Refused where one exists."""
        locked = built()
        if up:
            locked.fence(Reservation("n"), ())
        assert locked.with_intent(reserved(locked)).resource_version is None

    def test_intents_of_a_watch_count_without_a_known_fence(self) -> None:
        locked = built()
        locked.update_intents("n", [SETTING.intent(Held("q-1", "1", "g0", "you"))])
        assert held(locked) == {"q": ("g0",)}
        locked.update_intents("n", [])
        assert held(locked) == {}

    def test_intents_of_a_watch_do_not_replace_those_of_a_known_fence(self) -> None:
        locked = built()
        locked.fence(read(5, Held("q-1", "1", "g0", "you")))
        locked.update_intents("n", [])
        assert held(locked) == {"q": ("g0",)}


class TestSettling:
    def test_refused_to_us_it_counts_again_when_another_takes_it_over(self) -> None:
        locked = built()
        found = reserved(locked)
        locked.fence(replace(locked.with_intent(found), resource_version="6"))
        locked.withdraw(found)
        locked.fence(read(6, Held("p-1", "1", "g0", "me")), ())
        assert held(locked) == {}
        locked.fence(read(7, Held("p-1", "1", "g0", "you")), ())
        assert held(locked) == {"p": ("g0",)}

    def test_an_answer_may_be_older_than_the_watch(self) -> None:
        locked = built()
        found = reserved(locked)
        over = SETTING.bound(Pod("p-1", 3, "n", "g0", deleting=True))
        locked.cache.confirm(over, "n", 0.0)
        locked.confirm(found.intent.pod, "n")
        locked.fence(read(5), [SETTING.bound(Pod("p-1", 2, "n", "g0"))])
        info = locked.cache.info("n")
        assert info is not None
        assert [pod.terminating for pod in info.pods] == [True]

    def test_every_open_item_is_reported(self) -> None:
        locked = built()
        locked.fence(read(5, Held("q-1", "1", "g1", "you")), ())
        found = reserved(locked)
        assert [(node, i.uid) for node, i in locked.cache.assumed()] == [("n", "q-1"), ("n", "p-1")]
        locked.remove_pod("q-1")
        locked.confirm(found.intent.pod, "n")
        assert locked.cache.assumed() == []
        assert locked.cache.node_of("p-1") == "n"


def published(extender: Extender) -> list[str] | None:
    snapshot = extender.snapshot
    return [pod.name for pod in snapshot.nodes["n"].info.pods] if snapshot is not None else None


def test_filter_sees_a_promise_at_once() -> None:
    extender = Extender(Configuration(memory=MemorySection(headroom_percent=0)))
    locked = built(extender)
    # Before the first inventory nothing is published.
    locked.withdraw(reserved(locked))
    assert published(extender) is None
    extender.replace_nodes(locked.cache.infos())
    found = reserved(locked)
    assert published(extender) == ["p"]
    with locked.publishing:
        # The pending write would be overtaken, so its sender also sends this one.
        locked.withdraw(found)
        assert published(extender) == ["p"]
    locked.publish_owed()
    assert published(extender) == []


def test_a_pod_whose_binding_is_under_way_leaves_where_it_is_named_and_is_then_waited_for() -> None:
    """kube-scheduler knows the pod on its node already; the watch event is still to come."""
    extender = Extender(Configuration(memory=MemorySection(headroom_percent=0)))
    locked = built(extender)
    extender.replace_nodes(locked.cache.infos())
    reserved(locked, P, "m")
    reserved(locked, Q, "n")
    assert extender.snapshot is not None
    info = extender.snapshot.nodes["n"].info
    stays = replace(SETTING.bound(Pod("r-1", 1, "n", "g1")), priority=1000)
    extender.update_nodes({"n": replace(info, pods=(*info.pods, stays))})
    asking = asks_shares("urgent", 600)
    waiting = nominated(asking, "m")
    other = {"n": {"Pods": [{"UID": "q-1"}]}}
    assert preempt(extender, asking, {"m": {"Pods": []}}) == {}
    assert preempt(extender, waiting, other) == {"n": ["q-1"]}
    extender.preemption_answers.forget("uid-urgent")
    assert preempt(extender, asking, {"m": {"Pods": [{"UID": "p-1"}]}}) == {"m": ["p-1"]}
    assert preempt(extender, waiting, other) == {}
