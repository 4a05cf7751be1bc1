"""Victims for one member on single nodes, by the search of preemption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.preemption.disruption import Budget, PodSelector
from scheduler_ext.features.gangs.planning.draining import Running
from scheduler_ext.features.gangs.planning.victim_proposals import NodeProposals
from tests.core.reported import WHOLE, bound, wants
from tests.features.gangs.planning.planning_lab import SIZING, gpus_node, waiting


def holder(name: str, priority: int, **fields: Any) -> BoundPod:
    return replace(bound(name, wants(1, WHOLE), priority=priority), **fields)


class Trials:
    """One step's proposals on nodes that change from one trial to the next."""

    def __init__(self) -> None:
        self._infos: dict[str, NodeInfo] = {}
        self._proposals = NodeProposals(self._infos.__getitem__, SIZING)

    def proposed(
        self,
        count: int,
        infos: Sequence[NodeInfo],
        staying: Sequence[str] = (),
        budgets: Sequence[Budget] = (),
        uid: str = "me",
    ) -> list[tuple[str, set[str]]]:
        running = [Running(pod, info.name) for info in infos for pod in info.pods if pod.name not in staying]
        self._infos.update({info.name: info for info in infos})
        found = self._proposals.of(waiting(uid, count, 100).pod, running, budgets)
        return [(name, {uid.removeprefix("uid-") for uid in uids}) for name, uids in found]


LOW = gpus_node("low", 2, holder("a", 1), holder("b", 2))
HIGH = gpus_node("high", 2, holder("c", 5), holder("d", 1, labels={"app": "web"}))


@pytest.mark.parametrize(
    ("count", "staying", "allowed", "expected"),
    [
        pytest.param(
            1, [], 1, [("high", {"d"}), ("low", {"a"})], id="the least important pod of each node leaves"
        ),
        pytest.param(
            2, [], 1, [("low", {"a", "b"}), ("high", {"c", "d"})], id="the cheapest node comes first"
        ),
        pytest.param(
            1, ["a"], 1, [("high", {"d"}), ("low", {"b"})], id="a pod that must stay is never named"
        ),
        pytest.param(2, ["a"], 1, [("high", {"c", "d"})], id="nor a node where it is in the way"),
        pytest.param(2, [], 0, [("low", {"a", "b"})], id="nor pods whose budget is used up"),
    ],
)
def test_nodes_are_proposed_with_their_cheapest_victims(
    count: int, staying: list[str], allowed: int, expected: list[tuple[str, set[str]]]
) -> None:
    budget = Budget("ns", "web", PodSelector({"app": "web"}), allowed)
    assert Trials().proposed(count, [LOW, HIGH], staying, [budget]) == expected


# The pod has a place on a node, which others may not take.
_PLANNED = replace(LOW, planned=(waiting("me", 1, 100).pod,))
_WEB = (Budget("ns", "web", PodSelector({"app": "web"}), 0),)
_SITUATIONS: Sequence[tuple[Any, ...]] = [
    (1, [LOW, HIGH]),
    (2, [LOW, HIGH]),
    (1, [gpus_node("low", 1, holder("b", 2)), HIGH]),
    (1, [LOW, HIGH], ["a"]),
    (1, [LOW, HIGH], [], _WEB),
    (1, [_PLANNED, HIGH], [], (), "me"),
    (1, [_PLANNED, HIGH], [], (), "other"),
]


@pytest.mark.parametrize(
    ("first", "second"), list(zip(_SITUATIONS, (*_SITUATIONS[1:], _SITUATIONS[0]), strict=True))
)
def test_trials_of_one_step_do_not_change_each_other(first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    trials = Trials()
    for situation in (first, second, first):
        assert trials.proposed(*situation) == Trials().proposed(*situation)
