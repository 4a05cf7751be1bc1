"""Which pods came, each counted once: what a live cluster tells of the pods to come.

Counted are the pods that ask a GPU, for those alone are placed here. What the others have of a node's CPU is
seen on the node itself.
"""

from __future__ import annotations

import math

from scheduler_ext.core.request.pod_kinds import SeenPods, TaskClass, Workload

# A pod counts half after so many others, for some ten thousand make up a large cluster's load; the first so
# many that came may have asked anything. Reasoned, not tuned; the simulator takes the same.
HALF_LIFE_PODS = 2000
UNKNOWN_PODS = 20
# Anybody may create pods that ask as nobody else does; what is kept of them stays bounded.
MAX_CLASSES = 1000


class ObservedDemand:
    """Pods in the order in which they came: events in, a Workload out."""

    def __init__(self) -> None:
        self._seen = SeenPods(HALF_LIFE_PODS, UNKNOWN_PODS, MAX_CLASSES)
        # While a list is read, which is in no order: when each was created, and what it asks.
        self._held: list[tuple[float, TaskClass]] | None = None

    @property
    def count(self) -> int:
        """How many were counted so far."""
        return self._seen.seen

    def hold(self) -> None:
        """A list begins: who is heard of until ``release`` comes in the order of creation."""
        self._held = self._held or []

    def release(self) -> None:
        """The list is complete."""
        held, self._held = self._held or [], None
        for _, task in sorted(held, key=lambda item: item[0]):
            self._seen.saw(task)

    def came(self, task: TaskClass, created_at: float | None) -> None:
        """A pod was heard of for the first time; of unknown age is the youngest."""
        if self._held is None:
            self._seen.saw(task)
        else:
            self._held.append((math.inf if created_at is None else created_at, task))

    def workload(self) -> Workload:
        """What is to be expected."""
        return self._seen.workload()
