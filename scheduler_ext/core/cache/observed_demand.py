"""The pods observed in a live cluster, each counted once, as the basis of the demand forecast. Only pods that
ask a GPU are counted, because only those are placed here. The CPU of other pods counts on their node."""

import math

from scheduler_ext.core.request.pod_kinds import RecentWorkload, TaskClass

# The weight of a pod halves after this many others: some ten thousand pods make up a large cluster's load.
# The first UNKNOWN_PODS may have asked anything. Reasoned, not tuned; the simulator uses the same values.
HALF_LIFE_PODS = 2000
UNKNOWN_PODS = 20
# Users may create pods with ever new requests; the number of kinds that are kept stays bounded.
MAX_CLASSES = 1000


class ObservedDemand(RecentWorkload):
    """Pods in the order of their arrival."""

    def __init__(self) -> None:
        super().__init__(HALF_LIFE_PODS, UNKNOWN_PODS, MAX_CLASSES)
        # While a list is read, whose order means nothing: when each pod was created, and what it asks.
        self._held: list[tuple[float, TaskClass]] | None = None

    def hold(self) -> None:
        """A list begins: pods that arrive until `release` are counted in the order of their creation."""
        self._held = self._held or []

    def release(self) -> None:
        """The list is complete."""
        held, self._held = self._held or [], None
        for _, task in sorted(held, key=lambda item: item[0]):
            self.add(task)

    def came(self, task: TaskClass, created_at: float | None) -> None:
        """A pod appeared for the first time; a pod of unknown age counts as the youngest."""
        if self._held is None:
            self.add(task)
        else:
            self._held.append((math.inf if created_at is None else created_at, task))
