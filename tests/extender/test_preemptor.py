"""The extender's answers to preempt, and filter's reasons before it: rows are sentences."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import chain, count, repeat
from types import SimpleNamespace

import pytest

from scheduler_ext.core.errors import RequestError
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.preemption.disruption import Budget, PodSelector
from scheduler_ext.core.preemption.preemption import Preemption
from scheduler_ext.extender import preemptor
from scheduler_ext.extender.preemptor import Advice
from scheduler_ext.wire.config import Configuration, PreemptionSection
from tests.extender.preempting import (
    WHOLE,
    asks_shares,
    extender_on,
    filtered,
    leaving,
    nominated,
    on_gpu,
    on_share,
    preempt,
    preempt_body,
    share_node,
    tell,
    uids,
    whole_node,
)
from tests.kube_objects import Json, pod

EMPTY = Configuration(preemption=PreemptionSection(empty_victims=True))
URGENT = pod("urgent", {WHOLE: "1"}, priority=100)
TWO = (
    *whole_node("n1", "a"),
    *whole_node("n2", "b"),
    on_gpu("a", "n1", 1),
    on_gpu("b", "n2", 1),
)


def cpu(name: str, priority: int, amount: str = "1") -> Json:
    """A pod without GPUs, unknown to the extender."""
    asking = pod(name, {"cpu": amount}, on="n1", priority=priority)
    asking["spec"]["containers"][0]["resources"]["requests"] = {"cpu": amount}
    return asking


@pytest.mark.parametrize(
    ("proposed", "victims"),
    [
        pytest.param({"n1": uids("b")}, {"n1": ["a"]}, id="a pod of another node is not named"),
        pytest.param({"n1": uids("urgent", "a")}, {"n1": ["a"]}, id="nor the pod itself"),
        pytest.param({"n1": uids("web", "a")}, {"n1": ["web", "a"]}, id="a pod that holds no GPU is"),
        pytest.param({"n3": uids("a")}, {}, id="an unknown node is left out"),
        pytest.param(
            {"n1": uids("web", "a", violations=2)},
            {"n1": ["web", "a", "2 violated"]},
            id="violations of a pod that is not known are as kube-scheduler counts them",
        ),
    ],
)
def test_victims_are_on_their_node(proposed: Json, victims: dict[str, list[str]]) -> None:
    assert preempt(extender_on(*TWO), URGENT, proposed) == victims


@pytest.mark.parametrize(
    ("named", "asks", "victims"),
    [
        pytest.param([cpu("web", 100)], {}, {"n1": ["a"]}, id="an equal one is spared"),
        pytest.param([pod("web", on="n1")], {}, {"n1": ["web", "a"]}, id="none said is 0"),
        pytest.param([cpu("web", 5000)], {"cpu": "1"}, {}, id="where its CPU would be needed, no pod leaves"),
        pytest.param(
            [cpu("web", 5000, "2")],
            {"cpu": "500m"},
            {"n1": ["a"]},
            id="but where others free enough of it, they do",
        ),
    ],
)
def test_complete_pods_have_their_priority(
    named: list[Json], asks: Json, victims: dict[str, list[str]]
) -> None:
    a = on_gpu("a", "n1", 1)
    a["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "500m"
    extender = extender_on(*whole_node("n1", "a"), a)
    asking = pod("urgent", {WHOLE: "1"} | asks, priority=100)
    proposed = {"n1": {"Pods": [*named, a], "NumPDBViolations": 0}}
    assert preempt(extender, asking, proposed, whole_pods=True) == victims


@pytest.mark.parametrize(
    ("place", "victims"),
    [
        pytest.param("n2", {"n2": ["b"]}, id="on its place"),
        pytest.param("", {}, id="on no node while it has none"),
    ],
)
def test_for_a_member_that_filter_lets_to_its_place_alone_pods_leave(
    place: str, victims: dict[str, list[str]]
) -> None:
    notes = {"gpu.scheduler-ext.io/gang-node": place}
    asking = pod("urgent", {WHOLE: "1"}, priority=100, annotations=notes)
    assert preempt(extender_on(*TWO), asking, {"n1": uids("a"), "n2": uids("b")}) == victims


@dataclass
class Advised(Advice):
    """What a feature says."""

    held_back: str = ""
    first: Mapping[str, set[str]] = field(default_factory=dict)

    def goes_first(self, info: NodeInfo) -> Collection[str]:
        return self.first.get(info.name, ())

    def holds_back(self, uid: str) -> bool:
        return uid == self.held_back


def test_budgets_are_counted() -> None:
    guarded = on_gpu("a", "n1", 1)
    guarded["metadata"]["labels"] = {"app": "web"}
    extender = extender_on(*whole_node("n1", "a", "b"), guarded, on_gpu("b", "n1", 5))
    extender.budgets.update({"uid": Budget("default", "web", PodSelector({"app": "web"}), 0)})
    assert preempt(extender, URGENT, {"n1": uids("a")}) == {"n1": ["b"]}


@pytest.mark.parametrize("config", [Configuration(), EMPTY], ids=["a release", "with empty victims"])
@pytest.mark.parametrize(
    "asking",
    [
        pytest.param(pod("p", {WHOLE: "1"}, priority=100, preemptionPolicy="Never"), id="may not"),
        pytest.param(pod("p", {WHOLE: "-1"}, priority=100), id="cannot be read"),
        pytest.param(pod("p", {WHOLE: "1"}, priority=1), id="has no lower ones"),
    ],
)
def test_no_pod_leaves_for_a_pod_that(asking: Json, config: Configuration) -> None:
    extender = extender_on(*TWO, config=config)
    assert preempt(extender, asking, {"n1": uids("a")}) == {}
    assert filtered(extender, asking, ["n1", "n2"]) == ([], [])


def test_no_pod_leaves_for_one_that_fits_where_kube_scheduler_did_not_look() -> None:
    extender = extender_on(*TWO, advice=Advised(held_back="uid-urgent"))
    assert preempt(extender, URGENT, {"n1": uids("a")}) == {}
    assert preempt(extender, pod("other", {WHOLE: "1"}, priority=100), {"n1": uids("a")}) == {"n1": ["a"]}


class TestAPlaceOnItsWay:
    """No further pod leaves while the victims of the waiting pod leave."""

    ASKING = asks_shares("urgent", 60_000)
    WAITING = nominated(ASKING, "first")
    FIRST = (*share_node("first", 1), *share_node("second", 1), on_share("b", 40_000, "second", 0, 1))
    LOW = on_share("a", 40_000, "first", 0, 1)
    STAYS = on_share("stays", 30_000, "first", 0, 100)

    @pytest.mark.parametrize(
        ("asking", "first", "asked", "leaves"),
        [
            pytest.param(WAITING, (leaving(LOW),), True, False, id="no pod leaves meanwhile"),
            # For example a cordoned node: its victims may take an hour and free nothing.
            pytest.param(WAITING, (leaving(LOW),), False, True, id="unless filter is not asked about it"),
            pytest.param(ASKING, (leaving(LOW),), True, True, id="unless the pod is not nominated"),
            pytest.param(WAITING, (LOW,), True, True, id="unless no pod leaves the nominated node"),
            pytest.param(WAITING, (leaving(LOW), STAYS), True, True, id="unless more has to leave"),
            pytest.param(
                WAITING,
                (leaving(on_share("a", 40_000, "first", 0, 100)),),
                True,
                True,
                id="unless the departing pod has no lower priority",
            ),
            pytest.param(
                nominated(ASKING, "nosuch"),
                (leaving(LOW),),
                True,
                True,
                id="unless the nominated node is gone",
            ),
            # kube-scheduler has reasons of its own: a taint, for example.
            pytest.param(WAITING, (), True, True, id="unless kube-scheduler does not take the free place"),
        ],
    )
    def test_victims_on_a_second_node(
        self, asking: Json, first: tuple[Json, ...], asked: bool, leaves: bool
    ) -> None:
        extender = extender_on(*self.FIRST, *first)
        if asked:
            filtered(extender, asking, ["first"])
        assert preempt(extender, asking, {"second": uids("b")}) == ({"second": ["b"]} if leaves else {})

    def test_where_filter_refused_it_before_it_heard_of_the_end(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(preemptor, "BEHIND_S", 600.0)
        extender = extender_on(*self.FIRST, leaving(self.LOW))
        assert filtered(extender, self.WAITING, ["first"])[0] == []
        tell(extender, *self.FIRST)
        assert preempt(extender, self.WAITING, {"second": uids("b")}) == {}
        other = nominated(asks_shares("other", 60_000), "first")
        assert preempt(extender, other, {"second": uids("b")}) == {"second": ["b"]}
        extender.preemption_answers.forget("uid-other")
        extender.preemptor._refused.expire(time.monotonic() + 601)
        assert preempt(extender, self.WAITING, {"second": uids("b")}) == {"second": ["b"]}


class TestEmptyVictims:
    """Releases that accept victims on unproposed nodes get the nodes to preempt on."""

    OBJECTS = (*TWO, *whole_node("n3", "c"), on_gpu("c", "n3", 500))
    NAMES = ("n1", "n2", "n3", "nosuch")

    def test_where_no_node_fits_the_nodes_with_possible_victims_are_named(self) -> None:
        extender = extender_on(*self.OBJECTS, config=EMPTY)
        assert filtered(extender, URGENT, self.NAMES) == ([], ["n1", "n2"])
        assert preempt(extender, URGENT, {"n1": uids(), "n3": uids()}) == {"n1": ["a"]}

    def test_none_where_it_is_not_set(self) -> None:
        assert filtered(extender_on(*self.OBJECTS), URGENT, self.NAMES) == ([], [])

    def test_none_where_some_node_fits(self) -> None:
        extender = extender_on(*self.OBJECTS, *whole_node("free", None), config=EMPTY)
        assert filtered(extender, URGENT, [*self.NAMES, "free"]) == (["free"], [])

    def test_a_hundred_nodes_that_are_alike_take_no_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The result for one serves all, so that the clock hardly matters."""
        looked_at: list[NodeInfo] = []
        real = Preemption._is_rescuable

        def watched(self: Preemption, seen: NodeInfo) -> bool:
            looked_at.append(seen)
            return real(self, seen)

        monkeypatch.setattr(Preemption, "_is_rescuable", watched)
        names = [f"n{i}" for i in range(100)]
        objects = [
            each
            for name in names
            for each in (
                *share_node(name, 2),
                *(on_share(f"{name}-{i}", 50_000, name, i, 5) for i in range(2)),
            )
        ]
        extender = extender_on(*objects, config=EMPTY)
        assert filtered(extender, asks_shares("urgent", 40_000), names) == ([], sorted(names))
        assert len(looked_at) == 1

    def test_a_tenth_of_a_thousand_nodes_is_enough(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """kube-scheduler examines no more."""
        monkeypatch.setattr(preemptor, "_RESCUABLE", 3)
        names = [f"m{i}" for i in range(50)]
        objects = [each for name in names for each in (*whole_node(name, name), on_gpu(name, name, 1))]
        assert len(filtered(extender_on(*objects, config=EMPTY), URGENT, names)[1]) == 5

    def test_a_search_cut_short_does_not_claim_that_no_victim_helps(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """kube-scheduler would not ask again."""
        seconds = count(1)
        monkeypatch.setattr(preemptor, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
        useless = (*whole_node("n1", "kept"), on_gpu("kept", "n1", 1000), pod("low", on="n1", priority=1))
        asked = {"n1": uids("low"), "n2": uids("b", violations=1)}
        extender = extender_on(*useless, *whole_node("n2", "b"), on_gpu("b", "n2", 1))
        with pytest.raises(RequestError) as refusal:
            extender.preemptor.preempt(preempt_body(URGENT, asked), 3.0)
        assert refusal.value.status == 503

    @pytest.mark.parametrize(
        ("second", "victim"),
        [
            pytest.param(8.5, "cheap", id="before it, a cheaper victim is searched for"),
            pytest.param(9.5, "dear", id="in it, kube-scheduler's own proposal stays"),
        ],
    )
    def test_the_last_tenth_of_the_time_is_for_writing(
        self, monkeypatch: pytest.MonkeyPatch, second: float, victim: str
    ) -> None:
        extender = extender_on(
            *whole_node("n1", "cheap", "dear"), on_gpu("cheap", "n1", 1), on_gpu("dear", "n1", 5)
        )
        seconds = chain([0.0], repeat(second))
        monkeypatch.setattr(preemptor, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
        answer = extender.preemptor.preempt(preempt_body(URGENT, {"n1": uids("dear")}), 10.0)
        assert json.loads(answer.body)["NodeNameToMetaVictims"]["n1"]["Pods"] == uids(victim)["Pods"]

    def test_within_it_all_nodes_are_answered_before_any_is_searched(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """kube-scheduler's own proposal stays where no time is left for a better one."""
        monkeypatch.setattr(preemptor, "_RESERVED", 2.0)
        cheap = {
            name: (
                *whole_node(name, f"{name}a", f"{name}b"),
                on_gpu(f"{name}a", name, 1),
                on_gpu(f"{name}b", name, 5),
            )
            for name in ("n1", "n2")
        }
        extender = extender_on(*(each for objects in cheap.values() for each in objects))
        proposed = {name: uids(f"{name}b") for name in cheap}
        assert preempt(extender, URGENT, proposed) == {"n1": ["n1b"], "n2": ["n2b"]}
        extender.preemption_answers.forget("uid-urgent")
        monkeypatch.undo()
        assert preempt(extender, URGENT, proposed) == {"n1": ["n1a"], "n2": ["n2a"]}


def test_without_an_inventory_no_pod_leaves() -> None:
    extender = extender_on()
    extender._generation = None
    with pytest.raises(RequestError) as refusal:
        extender.preemptor.preempt(preempt_body(URGENT, {}), time.monotonic() + 60)
    assert refusal.value.status == 503


def test_of_two_that_wait_for_one_place_the_first_gets_it() -> None:
    """Equal priorities; preempt answered the second before it learned of the first."""
    one, other = (
        nominated(asks_shares(name, mib, priority=50), "n")
        for name, mib in (("aaa", 60_000), ("bbb", 50_000))
    )
    held = (on_share("h", 48_000, "n", 1, 500), *share_node("n", 2))
    extender = extender_on(*held, one, other)
    assert filtered(extender, one, ["n"])[0] == ["n"]
    assert filtered(extender, other, ["n"])[0] == []


def test_idle_pods_of_the_source_go_first() -> None:
    """Of two pods that are otherwise equal, where else the one that started last would."""
    early, late = on_gpu("early", "n"), on_gpu("late", "n")
    early["status"]["startTime"] = "2026-01-01T00:00:00Z"
    late["status"]["startTime"] = "2026-01-02T00:00:00Z"
    advice = Advised(first={"n": {"uid-early"}})
    extender = extender_on(*whole_node("n", "early", "late"), early, late, advice=advice)
    assert preempt(extender, URGENT, {"n": uids("early", "late")}) == {"n": ["early"]}
