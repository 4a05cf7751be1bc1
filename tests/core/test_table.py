"""A table that follows its nodes one by one publishes what one made anew would."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler_ext.core.columns import DeviceColumns, NodeColumns, UnitColumns
from scheduler_ext.core.cycle import Decision
from scheduler_ext.core.node import Node, NodeInfo
from scheduler_ext.core.policy import Policy
from scheduler_ext.core.request import GpuRequest
from scheduler_ext.core.snapshot import Snapshot
from scheduler_ext.core.table import Table, build_snapshot
from tests.core.reported import device, node
from tests.strategies import NODE_NAMES, node_infos, requests, resolved

NAMES = NODE_NAMES[:5]
# Which node, and what it is from now on: one of some states that come again, or gone.
changes = st.lists(
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 4), min_size=1, max_size=2), max_size=12
)


def named(name: str, info: NodeInfo | None) -> dict[str, Node | None]:
    if info is None:
        return {name: None}
    return {name: resolved([replace(info, name=name)])[name]}


def decided(snapshot: Snapshot, request: GpuRequest) -> dict[str, tuple[int, float]]:
    """Verdict and total by node."""
    decision = Decision(request, snapshot, Policy())
    state_of = {name: int(snapshot.state_of[snapshot.row_of[name]]) for name in (*NAMES, "nobody")}
    return {
        name: (int(decision.verdict[state]), float(decision.totals[state]))
        for name, state in state_of.items()
    }


@given(st.lists(node_infos(), min_size=4, max_size=4), changes, st.lists(requests(), min_size=1, max_size=3))
def test_decisions_are_those_of_a_table_made_anew(
    infos: list[NodeInfo], history: list[dict[str, int]], asked: list[GpuRequest]
) -> None:
    kinds: list[NodeInfo | None] = [*infos, None]
    table = Table({}, spare=2)
    nodes: dict[str, Node | None] = {}
    for change in history:
        changed = {
            key: node for name, kind in change.items() for key, node in named(name, kinds[kind]).items()
        }
        table.update(changed)
        nodes.update(changed)
        present = {name: node for name, node in nodes.items() if node is not None}
        followed, anew = table.snapshot(2), build_snapshot(present, 2)
        event(f"columns to spare: {len(followed.states) - len(anew.states)}")
        assert dict(followed.nodes) == present
        for request in asked:
            assert decided(followed, request) == decided(anew, request)


def arrays(snapshot: Snapshot) -> list[npt.NDArray[np.generic]]:
    columns: list[DeviceColumns | UnitColumns | NodeColumns] = [
        snapshot.devices,
        snapshot.node,
        *snapshot.units.values(),
    ]
    found = [getattr(each, part.name) for each in columns for part in fields(each)]
    return [snapshot.state_of, snapshot.name_rank, *found]


@given(st.lists(node_infos(), min_size=4, max_size=4), changes)
def test_what_was_published_never_changes(infos: list[NodeInfo], history: list[dict[str, int]]) -> None:
    kinds: list[NodeInfo | None] = [*infos, None]
    table = Table({}, spare=2)
    published: list[tuple[Snapshot, list[bytes], dict[str, Node]]] = []
    for change in history:
        table.update({k: n for name, kind in change.items() for k, n in named(name, kinds[kind]).items()})
        snapshot = table.snapshot(1)
        published.append((snapshot, [a.tobytes() for a in arrays(snapshot)], dict(snapshot.nodes)))
    for snapshot, was, nodes in published:
        assert [a.tobytes() for a in arrays(snapshot)] == was
        assert dict(snapshot.nodes) == nodes


@pytest.fixture
def table() -> Table:
    """Nine nodes of one kind."""
    return Table(resolved([replace(node(device(0)), name=f"n{i}") for i in range(9)]))


def test_the_names_table_is_kept_while_the_names_stay(table: Table) -> None:
    before = table.snapshot(1)
    table.update(named("n3", node(device(0, healthy=False))))
    assert table.snapshot(2).row_of is before.row_of


def test_a_state_that_nobody_is_in_gives_its_column_to_the_next(table: Table) -> None:
    widths = set()
    for used in range(100):
        info = node(device(0, healthy=used % 2 == 0), spot=used % 3 == 0, changing=used % 5 == 0)
        table.update(named("n3", info))
        widths.add(len(table.snapshot(used).states))
    assert max(widths) <= 4


def test_a_node_that_goes_before_it_came_changes_nothing(table: Table) -> None:
    table.update({"stranger": None})
    assert set(table.snapshot(2).nodes) == {f"n{i}" for i in range(9)}
