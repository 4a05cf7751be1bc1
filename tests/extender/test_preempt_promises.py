"""filter accepts every node that preempt returns, and no other pod leaves meanwhile: random nodes of
shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler_ext.core.cycle import cycle
from scheduler_ext.core.framework import allocate
from scheduler_ext.core.preemption import dry_run, preemption
from scheduler_ext.extender.extender import Extender
from tests.extender.preempting import (
    ROOM_MIB,
    asks_shares,
    extender_on,
    filtered,
    leaving,
    nominated,
    on_share,
    preempt,
    share_node,
    tell,
    uids,
)
from tests.kube_objects import Json

SIZES = (10_000, 20_000, 30_000, 40_000, 70_000)
PRIORITY = 50


@dataclass
class Cluster:
    """Nodes of so many GPUs for shares with their pods; some pods are leaving."""

    nodes: dict[str, int]
    pods: dict[str, Json]

    @property
    def objects(self) -> list[Json]:
        nodes = [each for name, gpus in self.nodes.items() for each in share_node(name, gpus)]
        return [*nodes, *self.pods.values()]

    def lower(self, node: str, *, only_leaving: bool = False) -> list[str]:
        """The pods there that may have to leave."""
        return [
            name
            for name, pod in self.pods.items()
            if pod["spec"]["nodeName"] == node
            and pod["spec"]["priority"] < PRIORITY
            and ("deletionTimestamp" in pod["metadata"] or not only_leaving)
        ]


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes = {name: draw(st.integers(1, 3)) for name in ("a", "b", "c")[: draw(st.integers(1, 3))]}
    pods: dict[str, Json] = {}
    for node, gpus in nodes.items():
        for index in range(gpus):
            room = ROOM_MIB
            for mib in draw(st.lists(st.sampled_from(SIZES), max_size=4)):
                if mib <= room:
                    room -= mib
                    name = f"{node}{index}-{len(pods)}"
                    pod = on_share(name, mib, node, index, draw(st.sampled_from((-5, 0, 10, 10, 50, 100))))
                    pods[name] = leaving(pod) if draw(st.integers(0, 4)) == 0 else pod
    return Cluster(nodes, pods)


requests = st.lists(st.sampled_from(SIZES), min_size=1, max_size=4)


def pick(extender: Extender, cluster: Cluster, asking: Json, named: bool) -> dict[str, list[str]]:
    """preempt's answer for all nodes, where kube-scheduler proposes all lower pods or none."""
    proposed = {node: uids(*(cluster.lower(node) if named else ())) for node in cluster.nodes}
    return preempt(extender, asking, proposed)


@given(clusters(), requests, st.booleans(), st.randoms(use_true_random=False))
def test_once_its_victims_are_gone_the_pod_passes_and_till_then_no_other_pod_leaves(
    cluster: Cluster, mib: list[int], named: bool, random: object
) -> None:
    asking = asks_shares("urgent", *mib, priority=PRIORITY)
    extender = extender_on(*cluster.objects)
    answer = pick(extender, cluster, asking, named)
    event(f"nodes: {len(answer)} of {len(cluster.nodes)}")
    for node, victims in answer.items():
        assert set(victims) <= set(cluster.lower(node))
        after = Cluster(cluster.nodes, dict(cluster.pods))
        after.pods.update({name: leaving(after.pods[name]) for name in victims})
        follow(extender, after, nominated(asking, node), node, named, random)


def follow(
    extender: Extender, cluster: Cluster, waiting: Json, node: str, named: bool, random: object
) -> None:
    """Delete the leaving pods of the node one after the other."""
    to_go = cluster.lower(node, only_leaving=True)
    random.shuffle(to_go)  # type: ignore[attr-defined]
    while True:
        tell(extender, *cluster.objects, waiting)
        passes = filtered(extender, waiting, [node])[0] == [node]
        if not to_go:
            assert passes
        if passes:
            return
        assert pick(extender, cluster, waiting, named) == {}
        del cluster.pods[to_go.pop()]


def crowded(name: str, rooms: Sequence[int]) -> list[Json]:
    """A node whose GPUs have this room left, less the pods that stay."""
    pods = [
        on_share(f"{name}-{i}", ROOM_MIB - room, name, i, 500)
        for i, room in enumerate(rooms)
        if room < ROOM_MIB
    ]
    return [*share_node(name, len(rooms)), *pods]


@pytest.mark.parametrize("others", [0, 3])
def test_search_steps_on_other_nodes_do_not_exclude_the_nominated_node(
    monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """A quarter of the steps finds the place on one node, and all of them none on the others."""
    for module in (allocate, cycle, dry_run, preemption):
        monkeypatch.setattr(module, "MAX_SEARCH_STEPS", 17_000)
    asking = asks_shares("urgent", 40_000, 30_000, 30_000, 20_000, *[20_500 + i * i for i in range(6)])
    hard = [each for j in range(others) for each in crowded(f"a{j}", [41_500 + 10 * j + i for i in range(6)])]
    rooms = [70_000, 50_000, *[42_000] * 3]
    full = crowded("z", rooms)
    victim = on_share("victim", 42_000, "z", 4, 1)
    extender = extender_on(*hard, *full, victim)
    assert preempt(extender, asking, {"z": uids("victim")}) == {"z": ["victim"]}
    tell(extender, *hard, *full)
    assert filtered(extender, asking, ["z"])[0] == ["z"]
