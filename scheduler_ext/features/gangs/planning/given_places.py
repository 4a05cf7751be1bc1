"""The places that a planner gives to pods, and the cluster on which it tries them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scheduler_ext.core.cycle.placing import BestNode
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.features.gangs.planning.waiting_pod import WaitingPod


@dataclass(frozen=True, slots=True)
class GivenPlace:
    """A place to keep and to write on a pod."""

    ask: WaitingPod
    pod: BoundPod
    node: str


@dataclass(frozen=True, slots=True)
class Step:
    """What to do now: places that are not kept any more, then new ones to keep and to write on their pods.
    `more`: another step would find more to do at once."""

    withdraw: Sequence[str] = ()
    nominate: Sequence[GivenPlace] = ()
    more: bool = False


@dataclass(slots=True)
class Given:
    """A place that was given, and until when it is kept; the pod shows it since `written_at`;
    `tried` once kube-scheduler has got a node for the pod."""

    ask: WaitingPod
    node: str
    until: float
    written_at: float | None = None
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tried: bool = False

    @property
    def written(self) -> bool:
        """Whether the pod shows it."""
        return self.written_at is not None


class PlanCluster(Protocol):
    """A cluster on which pods alone get places."""

    def best(self, ask: WaitingPod) -> BestNode | None:
        """The place that filter and scores choose for a pod now; None if it fits nowhere."""

    def put(self, ask: WaitingPod, node: str) -> None:
        """The pod is on a node that takes it."""

    def planned_on(self, node: str, uid: str) -> BoundPod | None:
        """The pod of this uid that has a place on a node, with the GPUs of its shares."""

    def refusals(self, ask: WaitingPod) -> Counter[str]:
        """The number of nodes that refuse a pod, by reason."""
