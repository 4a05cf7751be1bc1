"""A node that preempt named is the pod's place before the watch shows it: rows are sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest

from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.node.node import BoundPod, PendingPod
from scheduler_ext.core.request.request import GpuRequest, ShareRequest
from scheduler_ext.extender.extender import Extender
from scheduler_ext.extender.preemption_answers import BEHIND_S, EXPIRES_S
from tests.core.reported import SHARE, device
from tests.explain.test_replay import running
from tests.extender.foreseeing import read
from tests.extender.preempting import (
    ROOM_MIB,
    WHOLE,
    asks_shares,
    extender_on,
    filtered,
    leaving,
    nominated,
    on_gpu,
    on_share,
    preempt,
    share_node,
    tell,
    uids,
    whole_node,
)
from tests.kube_objects import Json, pod

# The pod of priority 10 is called dear, the other cheap.
WHOLE_NODE = (*whole_node("n", None, None), on_gpu("dear", "n", 10), on_gpu("cheap", "n", 0))
SHARE_NODE = (
    *share_node("n", 2),
    on_share("dear", ROOM_MIB, "n", 0, 10),
    on_share("cheap", ROOM_MIB, "n", 1, 0),
)
KINDS = [
    pytest.param(WHOLE_NODE, {WHOLE: "1"}, id="of whole GPUs"),
    pytest.param(SHARE_NODE, {SHARE: str(ROOM_MIB)}, id="of shares"),
]
ONE = {WHOLE: "1"}
BOTH = {"n": uids("dear", "cheap")}


class Clock:
    """The clock of the answers of an extender."""

    def __init__(self, extender: Extender) -> None:
        self.now = 100.0
        extender.preemption_answers._monotonic = lambda: self.now

    def __call__(self) -> float:
        return self.now


def asks(name: str, limits: Json = ONE, priority: int = 1000, version: str = "5") -> Json:
    asking = pod(name, limits, priority=priority)
    asking["metadata"]["resourceVersion"] = version
    return asking


def without(objects: Sequence[Json], *names: str) -> list[Json]:
    """All objects except these pods."""
    return [each for each in objects if each["kind"] != "Pod" or each["metadata"]["name"] not in names]


def with_leaving(objects: Sequence[Json], *names: str) -> list[Json]:
    """The same objects, with these pods being deleted."""
    return [
        leaving(each) if each["kind"] == "Pod" and each["metadata"]["name"] in names else each
        for each in objects
    ]


@pytest.mark.parametrize(("objects", "limits"), KINDS)
class TestTheSecondOfOnePriority:
    def test_gets_another_place(self, objects: Sequence[Json], limits: Json) -> None:
        extender = extender_on(*objects)
        assert preempt(extender, asks("x0", limits), {"n": uids("cheap")}) == {"n": ["cheap"]}
        assert preempt(extender, asks("x1", limits), BOTH)["n"][0] == "dear"

    def test_a_place_stays_taken_when_the_victim_is_gone(self, objects: Sequence[Json], limits: Json) -> None:
        """Before the watch shows the nomination."""
        extender = extender_on(*objects)
        preempt(extender, asks("x0", limits), {"n": uids("cheap")})
        tell(extender, *without(objects, "cheap"))
        assert filtered(extender, asks("x1", limits), ["n"])[0] == []
        assert filtered(extender, asks("lower", limits, 999), ["n"])[0] == []
        assert filtered(extender, asks("higher", limits, 1001), ["n"])[0] == ["n"]
        assert filtered(extender, asks("x0", limits), ["n"])[0] == ["n"]
        assert preempt(extender, asks("x1", limits), {"n": uids("dear")}) == {"n": ["dear"]}

    def test_a_pod_of_higher_priority_takes_the_place(self, objects: Sequence[Json], limits: Json) -> None:
        extender = extender_on(*objects)
        preempt(extender, asks("x0", limits), {"n": uids("cheap")})
        assert preempt(extender, asks("higher", limits, 1001), {"n": uids("cheap")}) == {"n": ["cheap"]}
        # Then the first pod needs another place.
        assert preempt(extender, asks("x0", limits), BOTH)["n"][0] == "dear"


class TestAPodThatAsksAgain:
    def extender(self) -> Extender:
        extender = extender_on(*WHOLE_NODE, *whole_node("m", "other"), on_gpu("other", "m", 5))
        assert preempt(extender, asks("x0"), {"n": uids("cheap")}) == {"n": ["cheap"]}
        return extender

    @pytest.mark.parametrize("asking", [asks("x0"), nominated(asks("x0", version="6"), "n")])
    def test_gets_the_same_victims_while_kube_scheduler_proposes_them(self, asking: Json) -> None:
        """Their eviction may have failed."""
        assert preempt(self.extender(), asking, BOTH | {"m": uids("other")}) == {"n": ["cheap"]}

    def test_gets_none_where_another_pod_is_in_its_way(self) -> None:
        """Its own victim is gone by kube-scheduler's count; that of the other pod is still there."""
        extender = self.extender()
        assert preempt(extender, asks("x1"), BOTH) == {"n": ["dear", "cheap"]}
        assert preempt(extender, nominated(asks("x0"), "n"), {"n": uids("dear")}) == {}

    def test_gets_none_elsewhere(self) -> None:
        assert preempt(self.extender(), asks("x0"), {"m": uids("other")}) == {}

    def test_gets_others_later_where_kube_scheduler_refuses_the_node_for_good(self) -> None:
        """For example a cordoned node: kube-scheduler neither proposes it nor asks filter about it."""
        extender = self.extender()
        clock = Clock(extender)
        extender.preemption_answers._answers.clear()
        assert preempt(extender, asks("x0"), {"n": uids("cheap")}) == {"n": ["cheap"]}
        clock.now += BEHIND_S
        waiting = nominated(asks("x0"), "n")
        assert preempt(extender, waiting, {"m": uids("other")}) == {"m": ["other"]}

    def test_gets_none_elsewhere_where_filter_refused_it_on_the_node(self) -> None:
        """kube-scheduler knows that the victim is gone, and withdrew the nomination."""
        extender = self.extender()
        clock = Clock(extender)
        clock.now = extender.preemption_answers._answers["uid-x0"].answered_at + 2 * BEHIND_S
        assert filtered(extender, asks("x0"), ["n"])[0] == []
        clock.now += 2 * BEHIND_S
        assert preempt(extender, asks("x0", version="7"), {"m": uids("other")}) == {}


class TestOneOfSeveralNodes:
    """kube-scheduler chose one of the named nodes."""

    N = (*whole_node("n", "a"), *whole_node("m", "b"))

    TIED = (*N, on_gpu("a", "n", 1), on_gpu("b", "m", 1))
    EACH: ClassVar = {"n": uids("a"), "m": uids("b")}
    NAMED: ClassVar = {"n": ["a"], "m": ["b"]}

    def test_all_are_named_again_where_none_was_chosen(self) -> None:
        """kube-scheduler was restarted before it evicted: an empty answer would leave the pod asleep."""
        extender = extender_on(*self.TIED)
        for _ in range(3):
            assert preempt(extender, asks("x0"), self.EACH) == self.NAMED

    def test_none_is_named_again_where_the_victims_of_one_leave(self) -> None:
        extender = extender_on(*self.TIED)
        assert preempt(extender, asks("x0"), self.EACH) == self.NAMED
        tell(extender, *with_leaving(self.TIED, "a"))
        assert preempt(extender, asks("x0"), self.EACH) == {}

    def test_a_place_ends_where_kube_scheduler_counts_it_on_none(self) -> None:
        """kube-scheduler proposes each node to the other pod too, and neither node has room for both."""
        extender = extender_on(*self.TIED)
        assert preempt(extender, asks("x0"), self.EACH) == self.NAMED
        assert preempt(extender, asks("x1"), self.EACH) == self.NAMED

    def test_explain_counts_it_as_filter_does(self) -> None:
        there = running(*whole_node("n", "a", None), on_gpu("a", "n", 1))
        preempt(there.extender, asks("x0", {WHOLE: "2"}), {"n": uids("a")})
        later = asks("later", priority=5)
        assert filtered(there.extender, later, ["n"])[0] == []
        (manifest,) = read(later)
        assert not there.explainer().of_manifest(manifest)["fits"]
        there.extender.preemption_answers.forget("uid-x0")
        assert there.explainer().of_manifest(manifest)["fits"]

    def test_a_node_is_laid_out_once_while_nothing_changes(self) -> None:
        """Every filter request asks."""
        extender = extender_on(*self.TIED)
        preempt(extender, asks("x0"), self.EACH)
        assert extender.snapshot is not None
        info = extender.snapshot.nodes["n"].info
        seen = extender.preemption_answers.over(info)
        assert seen is not info
        assert extender.preemption_answers.over(info) is seen
        preempt(extender, asks("higher", priority=2000), self.EACH)
        assert extender.preemption_answers.over(info) is not seen

    @pytest.mark.parametrize(
        ("unknown", "named"),
        [
            pytest.param((), 16, id="kube-scheduler gets few of those it would choose from"),
            pytest.param(("of-no-gpu",), 40, id="and all where it may know of other costs"),
        ],
    )
    def test_a_few_of_many_equal_nodes_are_returned(self, unknown: tuple[str, ...], named: int) -> None:
        names = [f"n{i}" for i in range(40)]
        objects = [
            each
            for i, name in enumerate(names)
            for each in (*whole_node(name, None), on_gpu(f"on-{name}", name, 1 if i < 10 else 0))
        ]
        proposed = {name: uids(f"on-{name}", *unknown) for name in names}
        answer = preempt(extender_on(*objects), asks("x0"), proposed)
        assert len(answer) == named
        assert unknown or answer.keys() < set(names[10:])

    def test_the_cheapest_is_the_place(self) -> None:
        extender = extender_on(*self.N, on_gpu("a", "n", 1), on_gpu("b", "m", 2))
        offered = {"n": uids("a"), "m": uids("b")}
        assert preempt(extender, asks("x0"), offered) == {"n": ["a"], "m": ["b"]}
        assert preempt(extender, asks("x1"), offered) == {"m": ["b"]}

    @pytest.mark.parametrize(
        ("starts", "free"),
        [
            pytest.param(("2026-11-20T00:00:00Z", "2026-11-20T00:00:01Z"), {"n"}, id="the youngest leaves"),
            pytest.param(
                ("2026-11-20T00:00:00Z", None), set(), id="a pod that has not started is younger yet"
            ),
        ],
    )
    def test_the_equal_node_with_the_youngest_victim_is_the_place(
        self, starts: tuple[str, str | None], free: set[str]
    ) -> None:
        held = [on_gpu("a", "n", 1), on_gpu("b", "m", 1)]
        for one, start in zip(held, starts, strict=True):
            one["status"] |= {"startTime": start} if start else {}
        extender = extender_on(*self.N, *held)
        preempt(extender, asks("x0"), {"n": uids("a"), "m": uids("b")})
        assert extender.snapshot is not None
        nodes = extender.snapshot.nodes
        assert {
            name for name in nodes if not extender.preemption_answers.over(nodes[name].info).nominated
        } == free

    def test_any_equal_node_with_room_for_both_may_be_the_place(self) -> None:
        objects = [
            each
            for name in ("n", "m")
            for each in (
                *whole_node(name, f"{name}-dear", f"{name}-cheap"),
                on_gpu(f"{name}-dear", name, 10),
                on_gpu(f"{name}-cheap", name, 0),
            )
        ]
        extender = extender_on(*objects)
        assert preempt(extender, asks("x0"), {"n": uids("n-cheap"), "m": uids("m-cheap")}) == {
            "n": ["n-cheap"],
            "m": ["m-cheap"],
        }
        # The first pod is on m, so that both victims have to leave there.
        second = {"n": uids("n-cheap"), "m": uids("m-dear", "m-cheap")}
        assert preempt(extender, asks("x1"), second)["n"] == ["n-cheap"]
        third = {"n": uids("n-dear", "n-cheap"), "m": uids("m-dear", "m-cheap")}
        answer = preempt(extender, asks("x2"), third)
        assert {name: victims[0] for name, victims in answer.items()} == {"n": "n-dear", "m": "m-dear"}
        # The third pod is on n: m has only one place left.
        fourth = {"m": uids("m-dear", "m-cheap")}
        assert preempt(extender, asks("x3"), fourth)["m"][0] == "m-dear"

    @pytest.mark.parametrize("by_watch", [False, True])
    @pytest.mark.parametrize(
        ("where", "free"),
        [
            pytest.param("m", {"n": ["a"]}, id="one of them"),
            pytest.param("o", NAMED, id="another one, so that no place is kept"),
        ],
    )
    def test_the_place_is_the_node_where_the_pod_is_nominated(
        self, where: str, free: dict[str, list[str]], *, by_watch: bool
    ) -> None:
        objects = (*self.TIED, *whole_node("o", "c"), on_gpu("c", "o", 1))
        extender = extender_on(*objects)
        preempt(extender, asks("x0"), self.EACH)
        chosen = nominated(asks("x0", version="6"), where)
        if by_watch:
            tell(extender, *objects, chosen)
        else:
            filtered(extender, chosen, ["n"])
        assert preempt(extender, asks("x1"), self.EACH) == free

    def test_an_older_nomination_says_nothing(self) -> None:
        """The pod waited for another node before; kube-scheduler and the watch may still have the old
        state.
        """
        waiting = nominated(asks("x0"), "m")
        objects = (*self.N, on_gpu("a", "n", 1), on_gpu("b", "m", 5000), waiting)
        extender = extender_on(*objects)
        assert preempt(extender, waiting, {"n": uids("a")}) == {"n": ["a"]}
        tell(extender, *objects)
        filtered(extender, waiting, ["m"])
        assert preempt(extender, asks("x1"), {"n": uids("a")}) == {}


class TestHowLong:
    """Until the watch shows the nomination or its end."""

    OBJECTS = (*whole_node("n", None), on_gpu("cheap", "n", 0))

    def named(self) -> tuple[Extender, Clock]:
        extender = extender_on(*self.OBJECTS)
        clock = Clock(extender)
        assert preempt(extender, asks("x0"), {"n": uids("cheap")}) == {"n": ["cheap"]}
        return extender, clock

    @staticmethod
    def is_kept(extender: Extender) -> bool:
        kept = preempt(extender, asks("x1"), {"n": uids("cheap")}) == {}
        extender.preemption_answers.forget("uid-x1")
        return kept

    def test_for_longer_than_a_watch_is_silent(self) -> None:
        extender, clock = self.named()
        clock.now += 38 + BEHIND_S
        assert self.is_kept(extender)
        clock.now = 100 + EXPIRES_S
        assert not self.is_kept(extender)

    @pytest.mark.parametrize(
        "names",
        [pytest.param((), id="the victim leaves"), pytest.param(("cheap",), id="it is gone")],
    )
    def test_for_some_seconds_after_the_watch_shows_that(self, names: tuple[str, ...]) -> None:
        extender, clock = self.named()
        clock.now += 20
        tell(extender, *without(with_leaving(self.OBJECTS, "cheap"), *names))
        clock.now += BEHIND_S - 1
        assert extender.preemption_answers.of("uid-x0") is not None
        clock.now += 1
        assert extender.preemption_answers.of("uid-x0") is None

    @pytest.mark.parametrize(
        ("at_first", "refused"),
        [
            pytest.param(with_leaving(OBJECTS, "cheap"), False, id="it left already"),
            pytest.param(OBJECTS, True, id="filter refused the pod, as the victim is gone there"),
        ],
    )
    def test_until_the_victim_is_gone_where(self, at_first: Sequence[Json], refused: bool) -> None:
        extender = extender_on(*at_first)
        clock = Clock(extender)
        assert preempt(extender, asks("x0"), {"n": uids("cheap")}) == {"n": ["cheap"]}
        if refused:
            assert filtered(extender, nominated(asks("x0"), "n"), ["n"])[0] == []
        tell(extender, *with_leaving(self.OBJECTS, "cheap"))
        clock.now += BEHIND_S
        assert extender.preemption_answers.of("uid-x0") is not None
        tell(extender, *without(self.OBJECTS, "cheap"))
        clock.now += BEHIND_S
        assert extender.preemption_answers.of("uid-x0") is None

    def test_until_the_pod_is_bound_elsewhere(self) -> None:
        extender, _ = self.named()
        free = whole_node("m", None)
        tell(extender, *self.OBJECTS, *free, pod("x0", ONE, on="m", priority=1000))
        assert not self.is_kept(extender)

    @pytest.mark.parametrize("gone", [False, True])
    def test_until_the_pod_is_gone(self, *, gone: bool) -> None:
        extender, _ = self.named()
        ended = extender.preemption_answers.follow(lambda uid: None, lambda uid: gone)
        assert (ended, self.is_kept(extender)) == (({"n"}, False) if gone else (set(), True))

    @pytest.mark.parametrize(
        ("version", "kept"),
        [
            pytest.param("5", True, id="the watch is behind"),
            pytest.param("10", False, id="the watch shows what became of it"),
        ],
    )
    def test_for_some_seconds_after_the_watch_shows_a_newer_pod(self, version: str, *, kept: bool) -> None:
        extender, clock = self.named()
        answers = extender.preemption_answers
        place = answers.of("uid-x0")
        assert place is not None
        answers.follow(lambda uid: PendingPod(place.pod, version, ""), lambda uid: False)
        clock.now += BEHIND_S
        assert (answers.follow(lambda uid: None, lambda uid: False) == set()) == kept
        assert self.is_kept(extender) == kept

    def test_the_nodes_of_ended_places_are_said_once(self) -> None:
        extender, clock = self.named()
        answers = extender.preemption_answers
        clock.now += EXPIRES_S
        assert answers.follow(lambda uid: None, lambda uid: False) == {"n"}
        assert answers.follow(lambda uid: None, lambda uid: False) == set()
        assert not answers


class TestAPlaceThatFilterRefuses:
    """kube-scheduler knows that the victims are gone, asks, is refused, and withdraws the nomination."""

    OBJECTS = (*whole_node("n", None), leaving(on_gpu("cheap", "n", 0)))
    WAITING = nominated(asks("x0"), "n")

    @pytest.mark.parametrize(
        "names", [pytest.param((), id="they leave"), pytest.param(("cheap",), id="they are gone")]
    )
    def test_is_kept_until_the_watch_knows_that(self, names: tuple[str, ...]) -> None:
        extender = extender_on(*self.OBJECTS, self.WAITING)
        clock = Clock(extender)
        assert filtered(extender, self.WAITING, ["n"])[0] == []
        tell(extender, *without(self.OBJECTS, *names))
        clock.now += BEHIND_S - 1
        assert filtered(extender, asks("x1"), ["n"])[0] == []
        clock.now += 2
        assert filtered(extender, asks("x1"), ["n"])[0] == (["n"] if names else [])

    def test_not_where_more_is_in_the_way(self) -> None:
        objects = (*self.OBJECTS, on_gpu("stays", "n", 5000))
        extender = extender_on(*objects, self.WAITING)
        assert filtered(extender, self.WAITING, ["n"])[0] == []
        assert not extender.preemption_answers


def test_bind_gives_no_pod_the_place_of_another() -> None:
    """Filter may have accepted the pod just before."""
    shares = GpuRequest(shares=ShareRequest((("main", ROOM_MIB),)))

    def pending(name: str, priority: int) -> PendingPod:
        return PendingPod(BoundPod(f"uid-{name}", "default", name, priority, shares), "1", "")

    inventory = Cache(150.0, 300.0)
    inventory.update_node("n", NodeRecord("uid-n", {SHARE: ROOM_MIB}), 0.0)
    inventory.update_report("n", Report((device(0),)), 0.0, 0.0)
    low = BoundPod("uid-low", "default", "low", 0, shares, devices={"main": ("GPU-0",)})
    inventory.confirm(low, "n", 0.0)
    extender = extender_on()
    extender.replace_nodes(inventory.infos())
    locked = LockedCache(inventory, extender)
    assert preempt(extender, asks_shares("x0", ROOM_MIB), {"n": uids("low")}) == {"n": ["low"]}
    inventory.remove_pod("uid-low", 0.0)
    inventory.update_report("n", Report((device(0),)), 10.0, 10.0)
    assert isinstance(locked.reserve(pending("lower", 99), "n"), str)
    assert not isinstance(locked.reserve(pending("x0", 100), "n"), str)
