"""How many more pods of chosen templates fit on a running extender's cluster, for the metrics."""

import logging
from collections.abc import Mapping
from fractions import Fraction
from typing import Protocol

from scheduler_ext.background import Background
from scheduler_ext.core.intree import NodeFacts, PodNeeds, intree_rejection
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import InvalidRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.explain import needs_of, request_of
from scheduler_ext.explain.intree_nodes import CPU, with_cpu
from scheduler_ext.whatif.copies import NO_LIMIT, Vessel, fill_all
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration, counted_pod
from scheduler_ext.wire.pod.pod_claims import ClaimLookup

log = logging.getLogger(__name__)

# A count takes a few milliseconds for whole GPUs, and more for shares on thousands of different nodes.
EVERY_S = 10.0


class Followed(Protocol):
    """The cluster that a running extender knows."""

    @property
    def snapshot(self) -> Snapshot | None: ...

    def node_facts(self) -> Mapping[str, NodeFacts]: ...

    @property
    def claims(self) -> ClaimLookup | None: ...


class SchedulableReplicas(Background):
    """Counts in a thread of its own, after the cluster has changed. `source` is the cluster."""

    def __init__(self, source: Followed, config: Configuration) -> None:
        super().__init__("schedulable-replicas")
        self._source = source
        self._config = config
        self._sizing = config.sizing()
        self._pods = {name: counted_pod(name, config) for name in config.metrics.schedulable_replicas}
        # The cluster at the last count: a cordon, a taint or a label changes no snapshot.
        self._counted: tuple[Snapshot, Mapping[str, NodeFacts]] | None = None
        self._counts: Mapping[str, int] = {}

    def counts(self) -> Mapping[str, int]:
        """The last count of each template, by its name; empty before the first."""
        return self._counts

    def run(self) -> None:
        while self._pods and not self.stopped.wait(EVERY_S if self._counts else 0.1):
            try:
                self.count()
            except Exception:
                log.exception("replicas were not counted; trying again")

    def count(self) -> None:
        """Count now, if the cluster has changed since."""
        snapshot = self._source.snapshot
        if snapshot is None:
            return
        facts = self._source.node_facts()
        before = self._counted
        if before is not None and before[0] is snapshot and before[1] == facts:
            return
        self._counts = {name: self._count(pod, snapshot, facts) for name, pod in self._pods.items()}
        self._counted = snapshot, facts

    def _count(self, pod: kube.Pod, snapshot: Snapshot, facts: Mapping[str, NodeFacts]) -> int:
        request = request_of(pod, self._config, self._source.claims)
        if isinstance(request, InvalidRequest):
            return 0
        needs = needs_of(pod, self._source.claims)
        # Equal nodes take equally many.
        times: dict[object, int] = {}
        vessels: dict[object, Vessel] = {}
        for name, node in snapshot.nodes.items():
            most = _most(node, facts.get(name), needs)
            if most:
                vessel = Vessel.of(node, most, request, self._sizing)
                key = node.state, vessel.rooms, most
                times[key] = times.get(key, 0) + 1
                vessels.setdefault(key, vessel)
        fills = fill_all(list(vessels.values()), request, self._sizing, snapshot)
        return sum(count * fill.copies for count, fill in zip(times.values(), fills, strict=True))


def _most(node: Node, facts: NodeFacts | None, needs: PodNeeds) -> int:
    """How many copies kube-scheduler's own filters let a node take, by its labels, its taints and its CPU."""
    if facts is None:
        return 0 if needs.node_name not in (None, "", node.info.name) else NO_LIMIT
    known = with_cpu(facts, node.info)
    ignored = frozenset({*needs.requests, "pods"}) - {CPU}
    if intree_rejection(needs, known, ignore_resources=ignored) is not None:
        return 0
    cpu = needs.requests.get(CPU, Fraction(0))
    if not cpu:
        return NO_LIMIT
    return int((known.allocatable[CPU] - known.requested.get(CPU, Fraction(0))) // cpu)
