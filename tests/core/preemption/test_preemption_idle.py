"""Idle pods go first among victims that are otherwise equal, and no other choice changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from scheduler_ext.core.node.node import BoundPod, NodeInfo
from tests.core.preemption.preempt_oracle import Question, cost
from tests.core.preemption.test_preemption_oracle import (
    anything,
    evicted,
    no_pod_to_name,
    preemption,
)
from tests.core.reported import SHARE, ask, bound, device, node, wants
from tests.examples import examples

data = st.data()


@examples(40, 800)
@given(anything, data)
def test_of_equal_sets_the_one_with_the_fewest_busy_pods_goes(question: Question, data: DataObject) -> None:
    uids = sorted({pod.uid for pod in question.info.pods})
    idle = data.draw(st.sets(st.sampled_from(uids)) if uids else st.just(set()))
    asking = replace(preemption(question), idle=lambda _: idle)
    victims = asking.victims(question.info, question.named)
    sets = question.sufficient()
    if not sets or no_pod_to_name(question):
        assert victims is None
        return

    def whole_cost(pods: Sequence[BoundPod]) -> tuple[float, ...]:
        *before, age = cost(pods, question.budgets)
        return *before, sum(pod.uid not in idle for pod in pods) if idle else 0, age

    assert victims is not None
    best = min(map(whole_cost, sets))
    assert whole_cost(evicted(question, victims)) == best
    assert victims.violations == best[0]


def shared(name: str) -> NodeInfo:
    """A node of two GPUs with two shares each: the first and the last pod are on the first GPU."""
    pods = tuple(
        bound(f"{name}{i}", wants(36_000, SHARE), started_at=float(i), devices={"main": (f"GPU-{on}",)})
        for i, on in enumerate((0, 1, 1, 0))
    )
    return replace(node(device(0), device(1), pods=pods, share_node=True), name=name)


def test_nodes_that_are_alike_but_for_idle_pods_have_victims_of_their_own() -> None:
    """One request examines many nodes, and remembers the answer for those that are alike. By age, the pods in
    the middle would go."""
    infos = [shared(name) for name in "abc"]
    request = replace(ask(wants(70_000, SHARE)), priority=100)
    idle = {"uid-a3", "uid-b2", "uid-b3"}
    asking = replace(preemption(Question(infos[0], request, {}, ())), idle=lambda _: idle)
    found = [asking.victims(info, [pod.uid for pod in info.pods]) for info in infos]
    assert [each and set(each.uids) for each in found] == [
        {"uid-a0", "uid-a3"},
        {"uid-b1", "uid-b2"},
        {"uid-c1", "uid-c2"},
    ]
