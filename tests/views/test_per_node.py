"""Values of nodes, computed again where something changed."""

from __future__ import annotations

from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.extender import Extender
from scheduler_ext.views.node_usage import PerNode
from scheduler_ext.wire.config import Configuration


def seen(*infos: NodeInfo) -> Snapshot:
    return Extender(Configuration()).replace_nodes(infos)


def test_a_node_that_did_not_change_is_not_computed_again() -> None:
    computed: list[str] = []

    def pool(node: Node) -> str:
        computed.append(node.info.name)
        return node.info.pool or ""

    pools, same = PerNode(pool), NodeInfo("n", pool="one")
    assert pools.of(None) == {}
    assert pools.of(seen(same, NodeInfo("m", pool="two"))) == {"n": "one", "m": "two"}
    assert pools.of(seen(same, NodeInfo("m", pool="three"))) == {"n": "one", "m": "three"}
    assert sorted(computed) == ["m", "m", "n"]
    assert pools.of(seen(same)) == {"n": "one"}
