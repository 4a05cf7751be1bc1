"""The rooms of nodes follow Nodes and pods, in whatever order these come and go."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.features.gangs.planning.node_rooms import NodeRooms

NODES, UIDS, RESOURCES = ("a", "b", "c"), ("p", "q", "r"), ("cpu", "memory")
_amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 9))
_events = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.sampled_from(NODES), _amounts),
        st.tuples(st.just("gone"), st.sampled_from(NODES), st.just({})),
        st.tuples(st.just("end"), st.sampled_from(UIDS), st.just({})),
        *(st.tuples(st.just(f"on {name}"), st.sampled_from(UIDS), _amounts) for name in NODES),
        st.tuples(st.just("copy"), st.just(""), st.just({})),
    ),
    max_size=30,
)


# A pod that takes nothing is still on a node that is gone.
@example([("on a", "q", {}), ("gone", "a", {}), ("end", "q", {})])
@given(_events)
def test_rooms_are_what_nodes_offer_less_what_pods_take(
    events: list[tuple[str, str, dict[str, int]]],
) -> None:
    rooms = NodeRooms()
    nodes: dict[str, dict[str, int]] = {}
    pods: dict[str, tuple[str, dict[str, int]]] = {}
    for what, name, amounts in events:
        if what == "node":
            nodes[name] = amounts
            rooms.update_node(name, NodeFacts(name, {}, (), False), amounts)
        elif what == "gone":
            nodes.pop(name, None)
            rooms.remove_node(name)
        elif what == "end":
            pods.pop(name, None)
            rooms.remove(name)
        elif what == "copy":
            rooms.copy(RESOURCES[:1])
        else:
            node = what.removeprefix("on ")
            pods[name] = node, amounts
            rooms.place(name, node, amounts)
    copy = rooms.copy(RESOURCES)
    assert set(rooms.pods()) == pods.keys()
    assert {name for name in NODES if rooms.has_node(name)} == nodes.keys()
    for name in NODES:
        index = copy.index.get(name)
        if index is None:
            assert name not in nodes
            continue
        assert (copy.facts[index] is not None) == (name in nodes)
        for resource in RESOURCES:
            taken = sum(each.get(resource, 0) for node, each in pods.values() if node == name)
            assert copy.free[resource][index] == nodes.get(name, {}).get(resource, 0) - taken


def test_columns_of_nodes_that_are_gone_are_used_again() -> None:
    rooms = NodeRooms()
    for number in range(1000):
        rooms.update_node(f"n{number}", NodeFacts(f"n{number}", {}, (), False), {"cpu": 1})
        rooms.remove_node(f"n{number}")
    assert len(rooms.copy(()).facts) == 1
