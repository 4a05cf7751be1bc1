"""Gangs and pods alone in one step, on the cluster of the planner: by priority and age."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.core.request.gang_request import GangKey, GangRequest
from scheduler_ext.features.gangs.planning.backfilled_cluster import BackfilledCluster
from scheduler_ext.features.gangs.planning.draining import Running
from scheduler_ext.features.gangs.planning.emptied_nodes import EmptiedNodes
from scheduler_ext.features.gangs.planning.gang import Gang, Member, MemberState
from scheduler_ext.features.gangs.planning.gang_decisions import Decisions
from scheduler_ext.features.gangs.planning.gang_reservation import Backfill, GangReservation
from scheduler_ext.features.gangs.planning.gang_step import GangPolicy, GangStep, Scene
from scheduler_ext.features.gangs.planning.gang_turns import GangTurns
from scheduler_ext.features.gangs.planning.gang_words import sentence
from scheduler_ext.features.gangs.planning.given_places import Step
from scheduler_ext.features.gangs.planning.plan import State
from scheduler_ext.features.gangs.planning.planned_cluster import PlannedCluster
from scheduler_ext.features.gangs.planning.planner import Planner
from scheduler_ext.features.gangs.planning.waiting_pod import WaitingPod
from tests.features.gangs.planning.memory_cluster import ALL
from tests.features.gangs.planning.planning_lab import SIZING, PlanningLab, gpus_node, waiting

KEY = GangKey("ml", "gang", "train")


def gang(
    size: int, created_at: float = 10.0, nodes: Sequence[str] = (), cpu: float = 1, name: str = "m"
) -> Gang[WaitingPod]:
    """A gang behind gates; `nodes` are where its members are nominated, with a deadline."""
    members = []
    for number in range(size):
        ask = waiting(f"{name}{number}", 1, cpu=cpu)
        member = Member(ask.uid, ask, MemberState.GATED, created_at=created_at, kind=ask.kind)
        members.append(replace(member, node=nodes[number], deadline=399.0) if nodes else member)
    return Gang(GangRequest(KEY if name == "m" else KEY._replace(name=name), size), tuple(members))


class Turns:
    """Steps on a cluster of nodes of one GPU each."""

    def __init__(self, *nodes: str) -> None:
        self._nodes = nodes
        self.run()
        self._emptied = EmptiedNodes(SIZING)
        self.planner = Planner(30.0)
        self.reservations: Sequence[GangReservation[WaitingPod]] = ()
        self.now = 100.0

    def step(
        self, *asks: WaitingPod, gangs: Sequence[Gang[WaitingPod]], **searches: bool
    ) -> tuple[set[str], Decisions[WaitingPod]]:
        """The pods alone that got a place, and what was decided about gangs."""
        self.now += 1.0
        cluster = self._cluster()
        scene = Scene(cluster, self._running, {}, refusals=cluster.refusals)
        planning: GangStep[WaitingPod] = GangStep(
            self.now, scene, GangPolicy(bounds=ALL), self.reservations, {}, **searches
        )
        order = sorted(asks, key=lambda ask: ask.rank)
        turns = GangTurns(planning, self.planner, order, cluster, lambda _: None, self.now, self.now)
        decisions = turns.take(gangs)
        self.reservations = decisions.reservations
        return {each.ask.uid for step in turns.steps for each in step.nominate}, decisions

    def run(self, **pods: str) -> None:
        """From now on these pods run, by node, and no others."""
        found = {node: waiting(name, 1).pod for node, name in pods.items()}
        self._running = [Running(pod, node) for node, pod in found.items()]
        there = {node: (pod,) for node, pod in found.items()}
        self.lab = PlanningLab([gpus_node(name, 1, *there.get(name, ())) for name in self._nodes])

    def beside(self) -> BackfilledCluster:
        """The cluster as pods alone may use it between two steps for gangs."""
        cluster = self._cluster()
        backfill = Backfill(cluster, self._running, self.now)
        backfill.reservations.extend(self.reservations)
        return BackfilledCluster(cluster, backfill, lambda _: None)

    def _cluster(self) -> PlannedCluster:
        return self.lab.cluster(self._emptied)


def alone(name: str, priority: int = 0, created_at: int = 0) -> WaitingPod:
    return waiting(name, 1, priority, number=created_at)


@pytest.mark.parametrize(
    ("nodes", "pod", "placed", "nominated"),
    [
        pytest.param("ab", alone("p", created_at=5), {"p"}, 0, id="an older pod comes before a gang"),
        pytest.param("ab", alone("p", created_at=20), set(), 2, id="a younger pod comes after it"),
        pytest.param("ab", alone("p", 5, 20), {"p"}, 0, id="a pod of higher priority comes before it"),
        pytest.param("abc", alone("p", created_at=20), {"p"}, 2, id="both start where there is room"),
    ],
)
def test_a_gang_and_a_pod_have_their_turns(
    nodes: str, pod: WaitingPod, placed: set[str], nominated: int
) -> None:
    turns = Turns(*nodes)
    found, decisions = turns.step(pod, gangs=[gang(2)])
    assert (found, len(decisions.nominate)) == (placed, nominated)
    assert decisions.lift == ([("m0", "m1")] if nominated else [])


def test_a_gang_says_why_nodes_refuse_its_members() -> None:
    """All refusals of the second start: one node holds the place of the first member."""
    turns = Turns("a", "b", "c")
    turns.lab.rooms.place("big", "a", {"cpu": 60_000, "pods": 1000})
    turns.lab.show("b", unschedulable=True)
    _, decisions = turns.step(gangs=[gang(2, cpu=5)])
    (verdict,) = decisions.verdicts
    why = {
        "Insufficient cpu": 1,
        "node(s) were unschedulable": 1,
        "Insufficient nvidia.com/gpu per device": 1,
    }
    assert verdict.refusals == {"m0": why, "m1": why}


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """Steps of one batch of one pod, on four nodes."""
    monkeypatch.setattr("scheduler_ext.features.gangs.planning.gang_turns._MOST", 1)
    monkeypatch.setattr("scheduler_ext.features.gangs.planning.planner._BATCH", 1)
    return Turns("a", "b", "c", "d")


OLDER = [alone("p", created_at=1), alone("q", created_at=2)]


def test_no_later_pod_goes_before_a_gang_that_waits_for_its_turn(slow: Turns) -> None:
    placed, decisions = slow.step(*OLDER, alone("late", created_at=50), gangs=[gang(2)])
    assert (placed, decisions.nominate) == ({"p"}, [])
    assert [each.state for each in decisions.verdicts] == [State.IN_LINE]
    assert decisions.in_line == (0, 10.0)


def test_a_gang_that_waits_for_its_turn_keeps_its_nominations_and_its_gates(slow: Turns) -> None:
    planned = gang(2, nodes=("c", "d"))
    placed, decisions = slow.step(*OLDER, gangs=[planned])
    assert {(each.uid, each.node, each.deadline) for each in decisions.nominate} == {
        ("m0", "c", 399.0),
        ("m1", "d", 399.0),
    }
    assert (placed, decisions.withdraw, decisions.lift) == ({"p"}, [], [])


def test_a_nomination_goes_where_an_earlier_pod_got_the_place(slow: Turns) -> None:
    _, decisions = slow.step(alone("q", priority=9), *OLDER, gangs=[gang(4, nodes=("a", "b", "c", "d"))])
    assert len(decisions.nominate) == 3
    assert len(decisions.withdraw) == 1


def test_a_gang_that_waits_for_its_turn_keeps_its_reservation(slow: Turns) -> None:
    """It waits for two of the pods that run; one node is free for the pods before it."""
    slow.run(a="r1", b="r2", c="r3")
    _, decisions = slow.step(gangs=[gang(3)])
    (kept,) = decisions.reservations
    assert len(kept.awaited) == 2
    placed, decisions = slow.step(*OLDER, gangs=[gang(3)])
    assert placed == {"p"}
    (again,) = decisions.reservations
    assert again.awaited == kept.awaited
    assert again.places == {uid: node for uid, node in kept.places.items() if node != "d"}
    (verdict,) = decisions.verdicts
    assert sentence(verdict, lambda ask: ask.request) == (
        "the gang, or what comes before it, is still to be tried; "
        "places are kept on 2 nodes, free once 2 pods left"
    )


def test_only_gangs_that_can_be_planned_wait_for_their_turn(slow: Turns) -> None:
    _, decisions = slow.step(*OLDER, gangs=[replace(gang(2), problem="broken")])
    assert [each.state for each in decisions.verdicts] == [State.INVALID]


@pytest.mark.parametrize(
    ("created_at", "free", "planned", "nodes"),
    [
        pytest.param(5.0, "d", {"other"}, "ab", id="a gang that comes first starts, on a kept node, too"),
        pytest.param(5.0, "cd", {"other"}, "adb", id="and a gang that waits keeps what is left"),
        pytest.param(20.0, "cd", set(), "adb", id="one that comes later waits until places were searched"),
        pytest.param(20.0, "bcd", {"m"}, "", id="a gang that waited starts once it fits"),
    ],
)
def test_what_fits_and_comes_first_starts_without_a_search(
    created_at: float, free: str, planned: set[str], nodes: str
) -> None:
    """The gang of three keeps node d, and waits for two pods that run."""
    turns = Turns("a", "b", "c", "d")
    turns.run(a="r1", b="r2", c="r3")
    turns.step(gangs=[gang(3)])
    assert [sorted(each.nodes) for each in turns.reservations] == [["a", "b", "d"]]
    turns.run(**{node: f"r{number}" for number, node in enumerate("abcd", 1) if node not in free})
    _, decisions = turns.step(gangs=[gang(3), gang(1, created_at, name="other")], searches=False)
    started = {each.gang.members[0].uid[:-1] for each in decisions.verdicts if each.gang and each.places}
    assert started == planned
    assert {node for each in decisions.reservations for node in each.nodes} == set(nodes)
    waits = [each.state for each in decisions.verdicts if not each.places]
    assert waits in ([], [State.IN_LINE], [State.IN_LINE, State.IN_LINE])


def test_a_step_in_which_gates_go_searches_for_no_places() -> None:
    turns = Turns("a", "b", "c", "d")
    turns.run(a="r1", b="r2")
    _, decisions = turns.step(gangs=[gang(1, 5.0, name="other"), gang(3)], starts_first=True)
    assert [each.state for each in decisions.verdicts] == [State.PLANNED, State.IN_LINE]
    _, decisions = turns.step(gangs=[gang(3)], starts_first=True)
    assert [each.state for each in decisions.verdicts] == [State.RESERVED]


def test_a_reservation_does_not_bind_pods_that_come_before_its_gang() -> None:
    """As between two steps for gangs, after other pods left."""
    turns = Turns("a", "b")
    turns.run(a="r1", b="r2")
    turns.step(gangs=[gang(2)])
    turns.run(b="r2")
    beside = turns.beside()
    assert beside.best(alone("older", created_at=5)) is not None
    assert beside.best(alone("urgent", priority=1, created_at=50)) is not None
    assert beside.best(alone("younger", created_at=50)) is None


@pytest.mark.parametrize(
    ("deadline", "expected"),
    [
        pytest.param(None, {"older", "urgent"}, id="nothing was promised to a gang whose pods had no gates"),
        pytest.param(399.0, set(), id="a gang whose gates went has until its deadline"),
    ],
)
def test_a_gang_that_has_begun_keeps_places_from_earlier_pods(
    deadline: float | None, expected: set[str]
) -> None:
    turns = Turns("a", "b", "c")
    turns.run(a="r1")
    members = tuple(replace(each, state=MemberState.WAITING, deadline=deadline) for each in gang(3).members)
    pods = alone("older", created_at=5), alone("urgent", priority=1, created_at=50)
    placed, decisions = turns.step(*pods, gangs=[replace(gang(3), members=members)])
    assert [each.state for each in decisions.verdicts] == [State.RESERVED]
    assert placed == expected


class Looks(Planner):
    """Counts the pods that it is asked about."""

    count = 0

    def step(self, now: float, asks: Sequence[WaitingPod], *given: Any) -> Step:
        self.count += len(asks)
        return super().step(now, asks, *given)

    def waits(self, asks: Iterable[WaitingPod], now: float) -> bool:
        asks = list(asks)
        self.count += len(asks)
        return super().waits(asks, now)


def test_pods_that_come_before_many_gangs_are_not_tried_for_each_of_them() -> None:
    turns = Turns("a")
    turns.run(a="r")
    turns.planner = planner = Looks(30.0)
    gangs = [
        replace(gang(2, created_at=100.0 + number), request=GangRequest(KEY._replace(name=f"g{number}"), 2))
        for number in range(50)
    ]
    pods = [alone(f"p{number}", created_at=number) for number in range(100)]
    _, decisions = turns.step(*pods, gangs=gangs)
    assert len(decisions.verdicts) == 50
    assert decisions.in_line is None
    assert planner.count < 10 * len(pods)
