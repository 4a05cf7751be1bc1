"""A table that follows its nodes one by one publishes the same as a new table."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler_ext.core.cycle.cycle import FITS, filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.gpu.gpu import Memory
from scheduler_ext.core.node.columns import DeviceColumns, NodeColumns, UnitColumns
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import Table, build_snapshot
from tests.core.asked import t4
from tests.core.reported import WHOLE, ask, device, node, sliced, wants
from tests.strategies import NODE_NAMES, node_infos, requests, resolved

NAMES = NODE_NAMES[:5]
# The node and its new state: one of a few recurring states, or gone.
changes = st.lists(
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 4), min_size=1, max_size=2), max_size=12
)


def named(name: str, info: NodeInfo | None) -> dict[str, Node | None]:
    if info is None:
        return {name: None}
    return {name: resolved([replace(info, name=name)])[name]}


def decided(snapshot: Snapshot, request: GpuRequest) -> dict[str, tuple[int, float]]:
    """Verdict and total by node."""
    decision = filter_nodes(request, snapshot, SchedulingPolicy())
    state_of = {name: int(snapshot.state_of[snapshot.row_of[name]]) for name in (*NAMES, "nobody")}
    return {
        name: (int(decision.verdict[state]), float(decision.totals[state]))
        for name, state in state_of.items()
    }


def arrays(snapshot: Snapshot) -> list[npt.NDArray[np.generic]]:
    columns: list[DeviceColumns | UnitColumns | NodeColumns] = [
        snapshot.devices,
        snapshot.node,
        *snapshot.units.values(),
    ]
    found = [getattr(each, part.name) for each in columns for part in fields(each)]
    return [snapshot.state_of, snapshot.name_rank, *found]


@given(st.lists(node_infos(), min_size=4, max_size=4), changes, st.lists(requests(), min_size=1, max_size=3))
def test_decisions_equal_those_of_a_new_table_and_what_is_published_stays(
    infos: list[NodeInfo], history: list[dict[str, int]], asked: list[GpuRequest]
) -> None:
    kinds: list[NodeInfo | None] = [*infos, None]
    table = Table({}, spare=2)
    nodes: dict[str, Node | None] = {}
    published: list[tuple[Snapshot, list[bytes], dict[str, Node]]] = []
    for change in history:
        changed = {
            key: node for name, kind in change.items() for key, node in named(name, kinds[kind]).items()
        }
        table.update(changed)
        nodes.update(changed)
        present = {name: node for name, node in nodes.items() if node is not None}
        followed, rebuilt = table.snapshot(2), build_snapshot(present, 2)
        event(f"columns to spare: {len(followed.states) - len(rebuilt.states)}")
        assert dict(followed.nodes) == present
        for request in asked:
            assert decided(followed, request) == decided(rebuilt, request)
        published.append((followed, [each.tobytes() for each in arrays(followed)], present))
    for snapshot, was, present in published:
        assert [each.tobytes() for each in arrays(snapshot)] == was
        assert dict(snapshot.nodes) == present


@pytest.fixture
def table() -> Table:
    """Nine nodes of one kind."""
    return Table(resolved([replace(node(device(0)), name=f"n{i}") for i in range(9)]))


def test_the_names_table_is_kept_while_the_names_stay(table: Table) -> None:
    before = table.snapshot(1)
    table.update(named("n3", node(device(0, healthy=False))))
    assert table.snapshot(2).row_of is before.row_of


def test_an_unused_state_gives_its_column_to_the_next(table: Table) -> None:
    widths = set()
    for used in range(100):
        info = node(device(0, healthy=used % 2 == 0), spot=used % 3 == 0, changing=used % 5 == 0)
        table.update(named("n3", info))
        widths.add(len(table.snapshot(used).states))
    assert max(widths) <= 4


@pytest.mark.parametrize("healthy", [True, False], ids=["free ones", "those of a sick GPU"])
def test_a_column_used_again_offers_nothing_of_its_former_state(table: Table, healthy: bool) -> None:
    """The column had whole GPUs; the next state has none."""
    table.update(named("n3", node(device(0), device(1, healthy=healthy), spot=True)))
    table.update(named("n3", node(device(0))))
    cut = sliced(("1g.10gb", 0))
    partitioned = node(device(0, mig=cut), device(1, mig=cut), report={"mig_strategy": "mixed"})
    table.update(named("n3", partitioned))
    followed = table.snapshot(2)
    rebuilt = build_snapshot(dict(followed.nodes), 2)
    assert len(followed.states) == len(rebuilt.states) == 3
    for snapshot in (followed, rebuilt):
        decision = filter_nodes(ask(wants(1, WHOLE)), snapshot, SchedulingPolicy())
        assert decision.verdict[int(snapshot.state_of[snapshot.row_of["n3"]])] != FITS
    column = int(followed.state_of[followed.row_of["n3"]])
    assert not followed.units[WHOLE].free[:, column].any()
    assert not followed.units[WHOLE].sick[:, column].any()


def test_a_model_that_no_node_has_any_more_is_none_of_the_models(table: Table) -> None:
    models = table.snapshot(1).models
    table.update(named("n3", node(t4(0))))
    assert [model.name for model in table.snapshot(2).models] == ["A100-80GB", "T4"]
    table.update(named("n3", node(device(0))))
    assert table.snapshot(3).models == models


def test_a_node_that_cannot_be_written_changes_nothing(table: Table) -> None:
    table.update(named("n3", node(device(0, healthy=False))))
    before = table.snapshot(1)
    impossible = node(device(0), device(1, memory=Memory(2**40)), spot=True)
    for changed in ("n3", "new"):
        with pytest.raises(OverflowError):
            table.update({**named("n4", node(t4(0))), **named(changed, impossible)})
        after = table.snapshot(2)
        assert after.nodes == before.nodes
        assert [a.tolist() for a in arrays(after)] == [a.tolist() for a in arrays(before)]
    # Nor is part of it used when the same state returns.
    with pytest.raises(OverflowError):
        table.update(named("n5", impossible))


def test_kinds_and_shapes_that_no_node_has_any_more_do_not_pile_up(table: Table) -> None:
    for round_ in range(1, 500):
        memory = Memory(81_920 - 1024 * (round_ % 40) - round_)
        table.update(named("n3", node(device(0, memory=memory), cpu_milli=round_ * 1000)))
    snapshot = table.snapshot(2)
    assert len(snapshot.kinds) < 40
    assert len(snapshot.shapes) < 140
    request = ask(wants(1, WHOLE))
    assert decided(snapshot, request) == decided(build_snapshot(dict(snapshot.nodes), 2), request)
