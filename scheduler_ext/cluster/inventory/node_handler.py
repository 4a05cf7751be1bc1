"""The event handler of Nodes."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.cluster.inventory.cache_handler import CacheHandler
from scheduler_ext.cluster.inventory.server_times import created_at
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.features.gangs.live.followed_cluster import FollowedCluster, FollowedNode
from scheduler_ext.wire import kube
from scheduler_ext.wire.node_info import node_constraints, node_record
from scheduler_ext.wire.watching import Broken


@dataclass(eq=False)
class NodeHandler(CacheHandler[kube.Node]):
    """Nodes: their amounts and labels, and for explanations what kube-scheduler's own filters compare."""

    kind = "Node"
    together = 50
    facts: dict[str, NodeFacts] = field(default_factory=dict)
    # What a planner follows, where there is one.
    planned: FollowedCluster | None = field(default=None, init=False)

    def seen(self, items: Sequence[kube.Node], clock: ServerClock) -> None:
        records = []
        followed: dict[str, FollowedNode] = {}
        for node in items:
            name = self.key(node)
            self._unlisted.discard(name)
            self.facts[name] = node_constraints(node)
            try:
                records.append((name, node_record(node, self._resources)))
                if self.planned is not None:
                    followed[name] = self.planned.read_node(node, self.facts[name])
            except QuantityError as error:
                self.broken(Broken(name, "", str(error)))
        now = time.monotonic()
        created = {self.key(node): created_at(node, clock, now) for node in items}
        with self._locked as cache:
            for name, record in records:
                cache.update_node(name, record, now, created[name])
            for name, each in followed.items():
                assert self.planned is not None
                self.planned.rooms.update_node(name, each.facts, each.offered)
        self._changed()

    def known(self) -> set[str]:
        with self._locked as cache:
            return cache.nodes() | self.facts.keys()

    def remove(self, keys: Collection[str]) -> None:
        for name in keys:
            self.facts.pop(name, None)
        with self._locked as cache:
            for name in keys:
                cache.remove_node(name)
                if self.planned is not None:
                    self.planned.rooms.remove_node(name)
        self._changed()
