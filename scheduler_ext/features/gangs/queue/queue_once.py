"""The queue of a cluster that is read once: without a plan and past run times."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler_ext.cli.answers import FromObjects
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.snapshot_dump import RecordedCluster
from scheduler_ext.explain.waiting import WaitingPods
from scheduler_ext.features.gangs.queue.queue_list import QueueView
from scheduler_ext.features.gangs.queue.start_estimates import StartEstimates
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.sources.source_status import SourceStatus
from scheduler_ext.wire.pod.pod_claims import ClaimLookup

# The limit of the estimates.
_ALL_S = 600.0


def queue_of_objects(answers: FromObjects, namespace: str | None) -> dict[str, Any]:
    """The QueueList, of one namespace or of all; `planning` is None: only an extender knows."""
    source = _Once(answers.moment, answers.state)
    waiting = WaitingPods(source, answers.moment.record, answers.explainer)
    view = QueueView(source, waiting.lines, StartEstimates(source, answers.config, _ALL_S))
    return view.listed(namespace, time.time()) | {"planning": None}


@dataclass(frozen=True, slots=True)
class _Once:
    """The source of the queue."""

    moment: RecordedCluster
    state: ClusterState

    @property
    def snapshot(self) -> Snapshot:
        return self.moment.snapshot

    @property
    def claims(self) -> ClaimLookup | None:
        return self.moment.claims

    def pending(self) -> Sequence[PendingPod]:
        return self.moment.waiting

    def is_gone(self, uid: str) -> bool:
        return False

    def node_facts(self) -> Mapping[str, NodeFacts]:
        return self.moment.facts

    def status(self) -> SourceStatus:
        return SourceStatus([], 0.0, facts=self.state.facts)
