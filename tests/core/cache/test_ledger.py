"""Holders by node, event by event; after all have left, nothing remains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.intent import Intent
from scheduler_ext.core.cache.ledger import NO_PODS, Ledger, NodePods
from scheduler_ext.core.errors import OverAllocationError
from scheduler_ext.core.gpu.gpu import Holder, Memory, Report
from scheduler_ext.core.node.node import BoundPod
from tests.core.cache.seen import cache_with, info_of
from tests.core.reported import SHARE, bound, device, wants

NOW = 100.0
EMPTY = Report((device(0),))
NAMES_P = Report((device(0, holders=(Holder(uid="uid-p"),)),))


def pod(name: str, mib: int = 10_000, **fields: object) -> BoundPod:
    return bound(name, wants(mib, SHARE), devices={"main": ("GPU-0",)}, **fields)


def intent(word: str) -> Intent:
    """p@1/you: version 1 of p, by that extender."""
    subject, _, extender = word.partition("/")
    name, _, version = subject.partition("@")
    return Intent(pod(name), version or "1", extender or "me")


def intents(words: str) -> list[Intent]:
    return [intent(word) for word in words.split(",") if word != "-"]


class Told:
    """A ledger with events in words, and holders in words."""

    def __init__(self) -> None:
        self.ledger = Ledger()

    def tell(self, *events: str) -> Told:
        """Events such as "seen p a": event, pod, node (a)."""
        for event in events:
            what, subject, node_name, *_ = *event.split(), "a", "a"
            self._verbs()[what](subject, node_name)
        return self

    def _verbs(self) -> dict[str, Callable[[str, str], object]]:
        ledger = self.ledger
        return {
            "assume": lambda p, n: ledger.assume(intent(p), n),
            "seen": lambda p, n: ledger.confirm(pod(p), n, NOW),
            "finished": lambda p, n: ledger.confirm(pod(p, finished=True), n, NOW),
            "deleting": lambda p, n: ledger.confirm(pod(p, terminating=True), n, NOW),
            "gone": lambda p, n: ledger.remove_pod(f"uid-{p}", NOW),
            "waited-and-gone": lambda p, n: ledger.remove_pod(f"uid-{p}", NOW, waited=True),
            "forget": lambda p, n: ledger.forget(intent(p).key, n),
            "withdraw": lambda p, n: ledger.withdraw(intent(p).key, n),
            "nominate": lambda p, n: ledger.nominate(pod(p), n),
            "unnominate": lambda p, n: ledger.nominate(pod(p), None),
            "written": lambda p, n: ledger.update_intents(n, intents(p)),
            "wrote": lambda p, n: ledger.update_intents(n, intents(p), ours=True),
            "report": lambda p, n: ledger.report_received(n, NAMES_P if p == "p" else EMPTY, NOW + 10),
            "early-report": lambda p, n: ledger.report_received(n, EMPTY, NOW + 1),
            "no-report": lambda p, n: ledger.report_received(n, None, NOW),
        }

    def holds(self, node_name: str = "a") -> str:
        """p! is assumed, p~ has departed, p. has finished, p? is nominated."""
        pods = self.ledger.pods_on(node_name)
        words = [
            pod.name
            + ("!" if pod.uid in pods.assumed else "")
            + ("~" if pod.departed else "." if pod.finished else "")
            for pod in pods.holding
        ]
        return " ".join([*words, *(f"{pod.name}?" for pod in pods.nominated)])


@pytest.mark.parametrize(
    ("events", "holding"),
    [
        pytest.param(["seen p"], "p", id="a bound pod holds, with any scheduler"),
        pytest.param(["assume p"], "p!", id="one that is about to be bound, too"),
        pytest.param(["assume p", "seen p"], "p", id="it is confirmed when it is seen"),
        pytest.param(["assume p", "forget p"], "", id="one that was refused holds nothing"),
        pytest.param(["assume p@1", "forget p@2"], "p!", id="of its versions each is its own promise"),
        pytest.param(["assume p@1", "assume p@2"], "p! p!", id="until it is known which comes true"),
        pytest.param(["assume p@1", "assume p@2", "seen p"], "p", id="which is one at most"),
        pytest.param(["assume p", "gone p"], "", id="one that is gone before it is bound holds nothing"),
        pytest.param(["seen p", "assume p"], "p", id="a bound pod is promised nothing more"),
        pytest.param(["seen p", "deleting p"], "p", id="a terminating pod holds until it is gone"),
        pytest.param(["seen p", "finished p"], "p~", id="one that finished only counts in the last report"),
        pytest.param(["seen p", "finished p", "report"], "p.", id="and then no more"),
        pytest.param(["seen p", "finished p", "seen p"], "p~", id="it never runs again, whatever is late"),
        pytest.param(["seen p", "gone p", "early-report"], "p~", id="not until a report that was read later"),
        pytest.param(["seen p", "gone p", "report"], "", id="a later report forgets a pod that is gone"),
        pytest.param(["seen p", "gone p", "report p"], "p.", id="a report that still names the pod keeps it"),
        pytest.param(["seen p", "gone p", "report p", "report"], "", id="the next report forgets it"),
        pytest.param(["seen p", "gone p", "no-report"], "", id="without a report nothing counts it"),
        pytest.param(["seen p", "gone p", "report", "seen p"], "", id="a uid that is gone never comes back"),
        pytest.param(["waited-and-gone p", "seen p"], "", id="also one that only waited"),
        pytest.param(["gone p", "seen p"], "p", id="an unknown one is not remembered"),
        pytest.param(["written p@1"], "p!", id="the written value holds"),
        pytest.param(["written p@1", "written -"], "", id="for as long as it is written"),
        pytest.param(["assume p", "written -"], "p!", id="what we assume holds before it is written"),
        pytest.param(["assume p", "written p@1", "withdraw p"], "p!", id="not asked for it stays written"),
        pytest.param(["assume p", "withdraw p"], "", id="and goes where it is not"),
        pytest.param(["written p@1", "forget p@1", "written p@1"], "", id="a settled one stays settled"),
        pytest.param(
            ["written p@1", "forget p@1", "written -", "written p@1"], "p!", id="until it is taken out"
        ),
        pytest.param(
            ["written p@1", "forget p@1", "written p@1/you"], "p!", id="or another extender takes it over"
        ),
        pytest.param(["written p@1", "forget p@1", "wrote p@1"], "", id="a write that was under way ends"),
        pytest.param(["assume p", "forget p", "wrote p@1"], "", id="so does the first one with the intent"),
        pytest.param(
            ["written p@1", "forget p@1", "assume p@1", "wrote p@1", "withdraw p@1"],
            "p!",
            id="a settled intent is open again once this extender assumes and rewrites it",
        ),
        pytest.param(["written p@1", "seen p b", "written p@1"], "", id="of a bound pod nothing is open"),
        pytest.param(["nominate p"], "p?", id="a nominated pod waits"),
        pytest.param(["nominate p", "nominate p b"], "", id="for one node at a time"),
        pytest.param(["nominate p", "unnominate p"], "", id="a withdrawn nomination is forgotten"),
        pytest.param(["nominate p", "seen p"], "p", id="or is bound"),
        pytest.param(["nominate p", "assume p"], "p! p?", id="about to be bound it still waits"),
        pytest.param(["seen p b", "seen p a"], "p", id="the last word counts on where it is"),
    ],
)
def test_the_pods_that_hold_units_of_a_node(events: list[str], holding: str) -> None:
    assert Told().tell(*events).holds() == holding


def test_a_recreated_pod_is_another_pod() -> None:
    told = Told().tell("seen p", "gone p")
    told.ledger.confirm(replace(pod("p"), uid="another"), "a", NOW)
    assert [(pod.uid, pod.holds) for pod in told.ledger.pods_on("a").holding] == [
        ("another", True),
        ("uid-p", False),
    ]


OF_PODS = ("assume", "seen", "finished", "deleting", "gone", "forget", "withdraw", "nominate", "report")
WRITTEN = ("-", "p@1", "p@2", "p@1,q@1", "r@1/you", "p@1/you,r@2")
EVENTS = st.lists(
    st.tuples(
        st.tuples(st.sampled_from(OF_PODS), st.sampled_from("pqr"))
        | st.tuples(st.sampled_from(("written", "wrote")), st.sampled_from(WRITTEN)),
        st.sampled_from("ab"),
    ).map(lambda event: f"{event[0][0]} {event[0][1]} {event[1]}"),
    max_size=25,
)


@given(events=EVENTS)
def test_nothing_is_left_when_all_have_gone(events: list[str]) -> None:
    told = Told().tell(*events)
    told.tell(*(f"waited-and-gone {name}" for name in "pqr"))
    for where in "ab":
        assert not any(pod.holds for pod in told.ledger.pods_on(where).holding)
        assert not told.ledger.pods_on(where).nominated
        told.tell(f"report - {where}", f"written - {where}")
        assert told.ledger.pods_on(where) == NO_PODS
        assert where not in told.ledger
    assert told.ledger.assumed() == []
    assert told.ledger.confirmed() == set()
    assert told.ledger._promised_on == {}


@given(events=EVENTS)
def test_a_pod_with_changed_holdings_is_reported(events: list[str]) -> None:
    told = Told()
    for event in events:
        before: dict[str, NodePods] = {where: told.ledger.pods_on(where) for where in "ab"}
        told.ledger.take_changes()
        told.tell(event)
        changed = told.ledger.take_changes()
        for where in "ab":
            if told.ledger.pods_on(where) != before[where]:
                assert where in changed


# --- promises against what there is ---


def inventory() -> Cache:
    """One node with a GPU of 1000 MiB."""
    return cache_with(device(0, memory=Memory(1000)), allocatable={SHARE: 1000})


def assume(built: Cache, name: str, mib: int, version: str = "1") -> None:
    built.assume(Intent(pod(name, mib), version, "me"), "a")


def test_a_pod_does_not_stand_in_its_own_way() -> None:
    built = inventory()
    assume(built, "p", 600)
    assume(built, "p", 1000, version="2")


@given(
    sizes=st.lists(st.integers(1, 700), min_size=1, max_size=12),
    leaving=st.lists(st.integers(0, 11), max_size=12),
)
def test_the_promised_amount_is_the_sum_of_the_holders(sizes: list[int], leaving: list[int]) -> None:
    """A full recount each time, so that nothing can drift."""
    built = inventory()
    holding: dict[str, int] = {}
    for i, mib in enumerate(sizes):
        try:
            assume(built, f"p{i}", mib)
        except OverAllocationError:
            assert sum(holding.values()) + mib > 1000
        else:
            holding[f"p{i}"] = mib
            assert sum(holding.values()) <= 1000
    for i in leaving:
        built.forget((f"uid-p{i}", "1"), "a")
        holding.pop(f"p{i}", None)
    pods = info_of(built).pods
    assert {pod.name: pod.request.shares and pod.request.shares.total_mib for pod in pods} == holding
    rest = 1000 - sum(holding.values())
    if rest:
        assume(built, "last", rest)
    with pytest.raises(OverAllocationError):
        assume(built, "one more", 1)
