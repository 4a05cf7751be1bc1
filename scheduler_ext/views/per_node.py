"""Values of nodes, computed again only for nodes that changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.snapshot.snapshot import Snapshot

T = TypeVar("T")


class PerNode(Generic[T]):
    """The value of each node of a snapshot; for one thread at a time."""

    def __init__(self, compute: Callable[[Node], T]) -> None:
        self._compute = compute
        self._known: dict[str, tuple[NodeInfo, T]] = {}

    def of(self, snapshot: Snapshot | None) -> dict[str, T]:
        """By the node's name, in the order of the snapshot."""
        known = {}
        for name, node in snapshot.nodes.items() if snapshot is not None else ():
            before = self._known.get(name)
            same = before is not None and before[0] is node.info
            known[name] = before if before is not None and same else (node.info, self._compute(node))
        self._known = known
        return {name: value for name, (_, value) in known.items()}
