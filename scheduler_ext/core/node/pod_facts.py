"""Facts about pods on nodes that no decision reads: they change no node of a snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class PodFacts:
    """`owner` is the workload of a pod, as KIND/NAME; "" without one. `running_since` is when it began to
    run, in seconds of wall time; None while it does not run, or if that is unknown. `reclaim_at` is its
    annotation about reclaim, as written. `max_duration_s` is the longest time that it runs, if stated."""

    owner: str = ""
    running_since: float | None = None
    reclaim_at: str | None = None
    max_duration_s: float | None = None

    @property
    def returns(self) -> bool:
        """Whether the pod comes back to its node at once: one of a DaemonSet, or a static pod, which its Node
        owns in the API server."""
        return self.owner.startswith(("DaemonSet/", "Node/"))


FactsOfPods: TypeAlias = Mapping[str, PodFacts]
"""By the uid of the pod."""
NO_FACTS = PodFacts()
