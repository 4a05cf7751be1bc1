"""The nodes that kube-scheduler examines for a pod."""

from typing import ClassVar

import numpy as np

from scheduler_ext.core.node.columns import Bools
from scheduler_ext.sim.world import Indexes

_LEAST_PERCENT = 5


class Sampling:
    """kube-scheduler 1.36 examines nodes in their order until enough pass its own filters, and begins the
    next search where the last one ended (pkg/scheduler/schedule_one.go, numFeasibleNodesToFind and
    nextStartNodeIndex). Only these nodes are sent to an extender, and what it refuses is not replaced."""

    # The number of nodes that are always looked for.
    least: ClassVar[int] = 100

    def __init__(self, order: Indexes, percent: int) -> None:
        """`order` are the nodes in the order of the search. `percent` of them suffice; 0 is kube-scheduler's
        default for this number of nodes."""
        count = len(order)
        percent = percent or max(50 - count // 125, _LEAST_PERCENT)
        self._wanted = max(count * percent // 100, self.least)
        self._order = order
        self._start = 0

    def examined(self, passes: Bools) -> Bools:
        """The nodes for the next pod, of those that pass kube-scheduler's own filters, `[node]`."""
        passing = np.flatnonzero(passes[self._order])
        first = int(np.searchsorted(passing, self._start))
        found = np.concatenate((passing[first:], passing[:first]))[: self._wanted]
        if len(found) == self._wanted:
            self._start = (int(found[-1]) + 1) % len(self._order)
        # Otherwise all nodes were looked at, and the next search begins at the same one.
        examined = np.zeros(len(self._order), np.bool_)
        examined[self._order[found]] = True
        return examined
