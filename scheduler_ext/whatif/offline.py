"""A cluster that was read once, to be asked the questions of a running extender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.node_info import node_constraints


@dataclass(frozen=True, slots=True)
class Offline:
    """What a running extender would see of it."""

    snapshot: Snapshot
    waiting: Sequence[PendingPod]
    facts: Mapping[str, NodeFacts]

    def pending(self) -> Sequence[PendingPod]:
        """The pods that ask GPUs and have no node."""
        return self.waiting

    def is_gone(self, uid: str) -> bool:
        """Never: deleted pods are not remembered here."""
        return False

    def node_facts(self) -> Mapping[str, NodeFacts]:
        """What kube-scheduler's own filters compare of each Node, without amounts."""
        return self.facts


def offline(state: ClusterState, config: Configuration) -> Offline:
    """The cluster, ready to be asked about."""
    sizing = Sizing(config.policy(), config.resource_names(), config.memory.headroom_percent)
    nodes = {name: sizing.resolved(info) for name, info in state.infos.items()}
    snapshot = build_snapshot(nodes, 1, forecast=Forecast(state.workload, ()))
    facts = {name: node_constraints(node) for name, node in state.objects.nodes.items()}
    return Offline(snapshot, state.pending, facts)
