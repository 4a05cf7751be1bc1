"""Which nodes a pod sees differently because of planned pods: the same ones as by looking at every node."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.node.nominated import nodes_with_nominated_pods
from scheduler_ext.core.snapshot.planned_pods import PlannedPods
from scheduler_ext.core.snapshot.table import Table
from tests.core.asked import whole
from tests.core.reported import NAMES, device, node

SIZING = Sizing(SchedulingPolicy(), NAMES, 10)
UIDS = ("p", "q", "r", "s")
_priorities = st.sampled_from((-1, 0, 7))
_planned = st.dictionaries(st.sampled_from(UIDS), st.tuples(st.integers(0, 2), _priorities))


def nodes(planned: dict[str, tuple[int, int]]) -> list[NodeInfo]:
    """Three nodes, on which these pods have places."""

    def places(on: int) -> tuple[BoundPod, ...]:
        there = ((uid, priority) for uid, (number, priority) in planned.items() if number == on)
        return tuple(BoundPod(uid, "ml", uid, priority, whole(1)) for uid, priority in there)

    empty = node(device(0), device(1))
    return [replace(empty, name=f"n{number}", planned=places(number)) for number in range(3)]


@given(_planned, st.sampled_from((*UIDS, "new")), _priorities)
def test_the_index_finds_what_a_look_at_all_nodes_finds(
    planned: dict[str, tuple[int, int]], uid: str, priority: int
) -> None:
    infos = nodes(planned)
    index = PlannedPods({info.name: info.planned for info in infos if info.planned})
    found = index.nodes_with_planned_pods(uid, priority)
    assert set(found) == nodes_with_nominated_pods(infos, uid, priority).keys()
    assert len(found) == len(set(found))
    assert len(index) == len(planned)
    assert index.node_of(uid) == (f"n{planned[uid][0]}" if uid in planned else None)


@given(st.lists(_planned, min_size=2, max_size=4))
def test_a_table_keeps_the_index_up_to_date(states: list[dict[str, tuple[int, int]]]) -> None:
    table = Table({info.name: SIZING.resolved(info) for info in nodes(states[0])})
    for state in states[1:]:
        table.update({info.name: SIZING.resolved(info) for info in nodes(state)})
        found = table.snapshot(1).planned
        assert {uid: found.node_of(uid) for uid in UIDS} == {
            uid: f"n{state[uid][0]}" if uid in state else None for uid in UIDS
        }
