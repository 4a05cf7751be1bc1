"""Gangs and pods alone in one step, on the cluster of the planner: by priority and age."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scheduler_ext.core.planning.emptied_nodes import EmptiedNodes
from scheduler_ext.core.planning.gang import Gang, GangKey, GangWish, Member, MemberState
from scheduler_ext.core.planning.gang_decisions import Decisions
from scheduler_ext.core.planning.gang_reservation import Reservation
from scheduler_ext.core.planning.gang_step import GangStep, Policy, Scene
from scheduler_ext.core.planning.gang_turns import GangTurns
from scheduler_ext.core.planning.planned_cluster import PlannedCluster
from scheduler_ext.core.planning.planner import Planner
from scheduler_ext.core.planning.waiting_pod import WaitingPod
from tests.core.planning.planning_lab import SIZING, PlanningLab, gpus_node, waiting

KEY = GangKey("ml", "gang", "train")


def gang(size: int, priority: int = 0, created_at: float = 10.0) -> Gang[WaitingPod]:
    members = []
    for number in range(size):
        ask = waiting(f"m{number}", 1, priority)
        members.append(Member(ask.uid, ask, MemberState.GATED, priority, created_at, kind=ask.kind))
    return Gang(GangWish(KEY, size), tuple(members))


class Turns:
    """Steps on a cluster of nodes of one GPU each."""

    def __init__(self, *nodes: str) -> None:
        self.lab = PlanningLab([gpus_node(name, 1) for name in nodes])
        self._emptied = EmptiedNodes(SIZING)
        self.planner = Planner(32, 30.0)
        self.reservations: Sequence[Reservation[WaitingPod]] = ()
        self.now = 100.0

    def step(
        self, *asks: WaitingPod, gangs: Sequence[Gang[WaitingPod]]
    ) -> tuple[set[str], Decisions[WaitingPod]]:
        """The pods alone that got a place, and what was decided about gangs."""
        self.now += 1.0
        cluster = self._cluster()
        scene = Scene(cluster, (), {})
        planning: GangStep[WaitingPod] = GangStep(self.now, scene, Policy(), self.reservations)
        order = sorted(asks, key=lambda ask: ask.rank)
        turns = GangTurns(planning, self.planner, order, cluster, lambda _: None, self.now, self.now)
        decisions = turns.take(gangs)
        self.reservations = decisions.reservations
        self.written = [each.ask.uid for step in turns.steps for each in step.write]
        return {each.ask.uid for step in turns.steps for each in step.nominate}, decisions

    def _cluster(self) -> PlannedCluster:
        snapshot = self.lab.snapshot()
        view = self.lab.in_tree.at(self.lab.rooms.copy(("cpu", "pods")), snapshot)
        return PlannedCluster(snapshot, SIZING, view, {}, self._emptied)


def alone(name: str, priority: int = 0, created_at: int = 0) -> WaitingPod:
    return waiting(name, 1, priority, number=created_at)


def test_an_older_pod_comes_before_a_gang() -> None:
    placed, decisions = Turns("a", "b").step(alone("p", created_at=5), gangs=[gang(2)])
    assert placed == {"p"}
    assert decisions.lift == []


def test_a_younger_pod_comes_after_a_gang() -> None:
    placed, decisions = Turns("a", "b").step(alone("p", created_at=20), gangs=[gang(2)])
    assert placed == set()
    assert decisions.lift == [("m0", "m1")]


def test_a_pod_of_higher_priority_comes_before_a_gang() -> None:
    placed, decisions = Turns("a", "b").step(alone("p", priority=5, created_at=20), gangs=[gang(2)])
    assert placed == {"p"}
    assert decisions.lift == []


def test_both_start_where_there_is_room() -> None:
    placed, decisions = Turns("a", "b", "c").step(alone("p", created_at=20), gangs=[gang(2)])
    assert placed == {"p"}
    assert len(decisions.nominate) == 2


def test_places_of_pods_are_written_once() -> None:
    turns = Turns("a", "b", "c")
    pod = alone("p", created_at=5)
    turns.step(pod, gangs=[gang(2)])
    assert turns.written == ["p"]


def test_no_later_pod_goes_before_a_gang_that_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch of one pod in a step."""
    monkeypatch.setattr("scheduler_ext.core.planning.gang_turns._MOST", 1)
    turns = Turns("a", "b", "c", "d")
    turns.planner = Planner(1, 30.0)
    older = [alone("p", created_at=1), alone("q", created_at=2)]
    placed, decisions = turns.step(*older, alone("late", created_at=50), gangs=[gang(2)])
    assert (placed, decisions.nominate) == ({"p"}, [])
