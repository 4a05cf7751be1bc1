"""The event handler of Nodes."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.cluster.following import NodeFollower
from scheduler_ext.cluster.inventory.cache_handler import CacheHandler
from scheduler_ext.cluster.inventory.server_times import created_at
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.wire import kube
from scheduler_ext.wire.node_info import node_constraints, node_record
from scheduler_ext.wire.watching import Broken


@dataclass(eq=False)
class NodeHandler(CacheHandler[kube.NodeObject]):
    """Nodes: their amounts and labels, and for explanations what kube-scheduler's own filters compare."""

    followers: Sequence[NodeFollower] = ()
    facts: dict[str, NodeFacts] = field(default_factory=dict, init=False)

    kind = "Node"
    together = 50

    def upsert(self, items: Sequence[kube.NodeObject], clock: ServerClock) -> None:
        records = []
        for node in items:
            name = self.key(node)
            self._unlisted.discard(name)
            self.facts[name] = node_constraints(node)
            try:
                records.append((name, node_record(node, self._resources)))
                for follower in self.followers:
                    follower.upsert(name, node, self.facts[name])
            except QuantityError as error:
                self.broken(Broken(name, "", str(error)))
        now = time.monotonic()
        created = {self.key(node): created_at(node, clock, now) for node in items}
        with self._locked as cache:
            for name, record in records:
                cache.update_node(name, record, now, created[name])
            for follower in self.followers:
                follower.update()
        self._changed()

    def known(self) -> set[str]:
        with self._locked as cache:
            return cache.nodes() | self.facts.keys()

    def remove(self, keys: Collection[str]) -> None:
        for name in keys:
            self.facts.pop(name, None)
        for follower in self.followers:
            follower.forget(keys)
        with self._locked as cache:
            for name in keys:
                cache.remove_node(name)
            for follower in self.followers:
                follower.update()
        self._changed()
