"""Victims for one member on single nodes, by the search of preemption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.cycle.policy import Policy
from scheduler_ext.core.gpu.gpu import Holder
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.planning.draining import Running
from scheduler_ext.core.planning.victim_proposals import node_proposals
from scheduler_ext.core.preemption.disruption import Budget, Selector
from tests.core.reported import NAMES, WHOLE, bound, device, node, wants


def holder(name: str, priority: int, **fields: Any) -> BoundPod:
    return replace(bound(name, wants(1, WHOLE), priority=priority), **fields)


def gpus(name: str, *pods: BoundPod) -> NodeInfo:
    """A node on which each pod has a GPU, and no other is free."""
    devices = [device(i, holders=(Holder(uid=pod.uid),)) for i, pod in enumerate(pods)]
    return replace(node(*devices, pods=pods, allocatable={WHOLE: len(pods)}), name=name)


def proposed(
    count: int, infos: Sequence[NodeInfo], staying: Sequence[str] = (), budgets: Sequence[Budget] = ()
) -> list[tuple[str, set[str]]]:
    asking = bound("me", wants(count, WHOLE), priority=100)
    asking = replace(asking, request=replace(asking.request, priority=100))
    running = [Running(pod, info.name) for info in infos for pod in info.pods if pod.name not in staying]
    by_name = {info.name: info for info in infos}
    found = node_proposals(asking, running, budgets, by_name.__getitem__, Sizing(Policy(), NAMES, 10))
    return [(name, {uid.removeprefix("uid-") for uid in uids}) for name, uids in found]


LOW = gpus("low", holder("a", 1), holder("b", 2))
HIGH = gpus("high", holder("c", 5), holder("d", 1, labels={"app": "web"}))


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
    budget = Budget("ns", "web", Selector({"app": "web"}), allowed)
    assert proposed(count, [LOW, HIGH], staying, [budget]) == expected
