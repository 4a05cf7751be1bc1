"""The snapshot: equal nodes share a state, names find their rows, and a published snapshot never changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given

from scheduler_ext.core.gpu.gpu import Memory
from scheduler_ext.core.node.node import UNKNOWN_NODE, NodeInfo, NodeState
from scheduler_ext.core.snapshot.snapshot import Snapshot
from tests import oracle
from tests.core.reported import device, node
from tests.strategies import NODE_NAMES, clusters, resolved, snapshot_of


def named(info: NodeInfo, *names: str) -> list[NodeInfo]:
    return [replace(info, name=name) for name in names]


def state(snapshot: Snapshot, name: str) -> NodeState:
    return snapshot.states[int(snapshot.state_of[snapshot.row_of[name]])]


USED = device(0, memory=Memory(81920, used_mib=5000))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param(node(device(0)), node(device(0)), True, id="equal nodes share a state"),
        pytest.param(node(device(0)), node(device(3)), True, id="whatever the UUIDs and indices"),
        pytest.param(
            node(USED, device(1)),
            node(device(0), device(1, memory=USED.memory)),
            True,
            id="whichever is in use",
        ),
        pytest.param(node(USED), node(device(0)), False, id="but not with different memory in use"),
        pytest.param(node(device(0)), node(device(0), spot=True), False, id="nor a spot node with another"),
    ],
)
def test_nodes_share_a_state_when_no_decision_could_distinguish_them(
    one: NodeInfo, other: NodeInfo, same: bool
) -> None:
    snapshot = snapshot_of([*named(one, "a"), *named(other, "b")])
    row_a, row_b = snapshot.rows(["a", "b"])
    assert bool(snapshot.state_of[row_a] == snapshot.state_of[row_b]) is same


def test_names_of_no_node_are_in_the_state_of_an_unknown_node() -> None:
    snapshot = snapshot_of(named(node(device(0)), "a"))
    rows = snapshot.rows(["nobody", "a", ""])
    assert rows.tolist() == [-1, 0, -1]
    assert snapshot.states[snapshot.state_of[rows[0]]] == UNKNOWN_NODE


def test_a_snapshot_of_nothing_knows_no_name() -> None:
    snapshot = snapshot_of([])
    assert snapshot.rows(["a"]).tolist() == [-1]
    assert snapshot.states == (UNKNOWN_NODE,)
    assert snapshot.scarcity.tolist() == [0.0]


def test_names_are_ranked_by_their_text_and_unknown_ones_last() -> None:
    snapshot = snapshot_of(named(node(device(0)), *NODE_NAMES))
    ranks = snapshot.name_rank[snapshot.rows([*sorted(NODE_NAMES), "nobody"])]
    assert ranks.tolist() == list(range(len(NODE_NAMES) + 1))


@given(clusters())
def test_every_column_says_what_the_states_say(cluster: Sequence[NodeInfo]) -> None:
    snapshot = snapshot_of(cluster)
    nodes = resolved(cluster)
    assert all(state(snapshot, name) == node.state for name, node in nodes.items())
    for column, found in enumerate(snapshot.states):
        assert snapshot.node.count[column] == sum(node.state == found for node in nodes.values())
        assert snapshot.node.devices[column] == len(found.slots)
        assert snapshot.node.share_limit[column] == found.share_limit
        assert snapshot.node.cpu_free_milli[column] == found.cpu_free_milli
        for row, slot in enumerate(found.slots):
            devices = snapshot.devices
            assert snapshot.models[devices.model[row, column]] == slot.model
            assert bool(devices.healthy[row, column]) is slot.healthy
            assert devices.share_free_mib[row, column] == slot.share_free_mib
            assert devices.idle[row, column] == slot.idle
            assert snapshot.kinds[devices.kind[row, column]].model == slot.model
            for unit in slot.units:
                columns = snapshot.units[unit.resource]
                assert columns.offered[row, column]
                assert columns.free[row, column] == (unit.free if slot.healthy else 0)
                assert columns.free_mib[row, column] == unit.free_mib
                assert snapshot.models[columns.model[row, column]] == unit.model
        for resource, units in snapshot.units.items():
            assert units.available[column] == oracle.available(found, resource)
        assert not snapshot.devices.healthy[len(found.slots) :, column].any()
        assert (snapshot.devices.share_free_mib[len(found.slots) :, column] == -1).all()
