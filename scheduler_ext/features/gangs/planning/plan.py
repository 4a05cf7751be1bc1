"""The plan for all waiting pods: where each of them goes, or why it has no place yet. The queue, the page and
the metrics show it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler_ext.core.request.gang_request import GangKey
from scheduler_ext.features.gangs.planning.meaning_enum import MeaningEnum


class State(MeaningEnum):
    """How a waiting pod or gang stands; `meaning` is a sentence."""

    PLANNED = "planned", "It has a place, which is not written on the pod yet."
    NOMINATED = "nominated", "Its place is written on the pod, and kube-scheduler tries it there first."
    WAITING = "waiting", "It has no place yet."
    BACKING_OFF = "backing off", "Its last nomination had no effect; it is planned again later."
    NOT_MODELLED = "not modelled", "It asks for something that the planner does not know."
    NOMINATED_ELSEWHERE = "nominated by another", "Another component, such as preemption, has nominated it."
    GATED = "gated", "It has scheduling gates, so no scheduler tries it."
    TERMINATING = "terminating", "It is being deleted, so kube-scheduler does not place it."
    INVALID = "invalid", "Its request, or its gang, cannot be read."
    ASSEMBLING = "assembling", "Some pods of the gang do not exist yet."
    RESERVED = "reserved", "Places are kept for the gang until other pods leave them."
    EVICTING = "evicting", "Pods leave their places for the gang."
    BEHIND = "behind a reservation", "The places that it could take are kept for a gang."
    NOT_KEPT = "without kept places", "No places are kept for the gang: it might wait too long for its start."
    IN_LINE = "in line", "The gang, or what comes before it, is still to be tried."
    UNSCHEDULABLE = "unschedulable", "The gang would not fit if all other pods with GPUs left."
    GIVEN_UP = "given up", "The gang did not start in time, and is evicted whole."


@dataclass(frozen=True, slots=True)
class Entry:
    """One waiting pod. Times are wall time in seconds; it is in its state `since` then. `node` and `devices`
    (UUIDs by container, of shares only) are its place. `reason` is a sentence without a full stop, and
    `refusals` counts the nodes that refuse the pod by reason. `deadline` is when its place is given up."""

    uid: str
    namespace: str
    name: str
    state: State
    priority: int = 0
    created_at: float = 0.0
    since: float = 0.0
    node: str = ""
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reason: str = ""
    refusals: Mapping[str, int] = field(default_factory=dict)
    gang: GangKey | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """All waiting pods at one time, in the order in which kube-scheduler tries them. Times are wall time in
    seconds."""

    made_at: float = 0.0
    entries: Sequence[Entry] = ()

    def counts(self) -> Counter[State]:
        """The number of pods in each state."""
        return Counter(entry.state for entry in self.entries)
