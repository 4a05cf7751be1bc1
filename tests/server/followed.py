"""A source in place of a cluster's, with the nodes that a test sets, and what is known beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import NodeInfo, PendingPod
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.extender import Extender
from scheduler_ext.sources.clusterstate import state_of
from scheduler_ext.sources.source_status import Check, SourceStatus
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import read_objects
from tests.kube_objects import Json, inventory


class Followed:
    """Without nodes, it has no snapshot, as before the first inventory."""

    binder = None
    claims = None

    def __init__(self, *objects: Json, freshness: str = "", config: Configuration | None = None) -> None:
        self.config = config or Configuration()
        self.extender = Extender(self.config)
        self.told = SourceStatus([Check("inventory", True)], 0.0)
        self.pods: Sequence[PendingPod] = ()
        if objects:
            self.follow(*objects, freshness=freshness)

    def follow(self, *objects: Json, freshness: str = "") -> Self:
        """Take over the nodes, readings and pods of these objects; with this freshness, if there is one."""
        state = state_of(read_objects(inventory(*objects)), "test", self.config.resource_names())
        self.set(replace(info, freshness=freshness or info.freshness) for info in state.infos.values())
        self.tell(readings=state.readings, facts=state.facts)
        self.pods = state.pending
        return self

    def set(self, infos: Iterable[NodeInfo]) -> None:
        self.extender.replace_nodes(infos)

    def tell(self, **status: Any) -> None:
        """Change fields of its status."""
        self.told = replace(self.told, **status)

    @property
    def snapshot(self) -> Snapshot | None:
        return self.extender.snapshot

    def status(self) -> SourceStatus:
        return self.told

    def pending(self) -> Sequence[PendingPod]:
        return self.pods

    def is_gone(self, uid: str) -> bool:
        return False

    def node_facts(self) -> Mapping[str, NodeFacts]:
        return {}
