"""The places that reservations of gangs leave to pods alone."""

from collections import Counter
from collections.abc import Callable

from scheduler_ext.core.cycle.placing import BestNode
from scheduler_ext.core.framework.refusal import KEPT_FOR_GANG
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.features.gangs.planning.gang_reservation import Backfill
from scheduler_ext.features.gangs.planning.planned_cluster import PlannedCluster
from scheduler_ext.features.gangs.planning.waiting_pod import WaitingPod


class BackfilledCluster:
    """A cluster whose best places disturb no reservation; `duration_s` has the stated length of a pod."""

    def __init__(
        self,
        cluster: PlannedCluster,
        backfill: Backfill[WaitingPod],
        duration_s: Callable[[str], float | None],
    ) -> None:
        self._cluster = cluster
        self._backfill = backfill
        self._duration_s = duration_s

    def best(self, ask: WaitingPod) -> BestNode | None:
        """The best place that disturbs no reservation."""
        turn = ask.rank[:2]
        return self._backfill.place(ask, ask.priority, self._duration_s(ask.uid), turn=turn)

    def put(self, ask: WaitingPod, node: str) -> None:
        """The pod is on a node that takes it."""
        self._cluster.put(ask, node)

    def planned_on(self, node: str, uid: str) -> BoundPod | None:
        """The pod of this uid that has a place on a node."""
        return self._cluster.planned_on(node, uid)

    def refusals(self, ask: WaitingPod) -> Counter[str]:
        """The number of nodes that refuse a pod, by reason."""
        found = self._cluster.refusals(ask)
        if kept := self._cluster.count(ask):
            # The pod has no place, so reservations keep it from all nodes that would take it.
            found[KEPT_FOR_GANG.text] += kept
        return found
