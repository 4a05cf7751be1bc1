"""The places that a planner gives to pods, and the cluster on which it tries them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.planning.placing import Placing
from scheduler_ext.core.planning.waiting_pod import WaitingPod


@dataclass(frozen=True, slots=True)
class GivenPlace:
    """A place to keep and to write on a pod; with `races`, kube-scheduler may come to the pod before it knows
    the place."""

    ask: WaitingPod
    pod: BoundPod
    node: str
    races: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """What to do now: places that are not kept any more, then new ones to keep, and kept ones to write on
    their pods. `more`: another step would find more to do at once."""

    withdraw: Sequence[str] = ()
    nominate: Sequence[GivenPlace] = ()
    write: Sequence[GivenPlace] = ()
    more: bool = False


@dataclass(slots=True)
class Given:
    """A place that was given, and until when it is kept; `written` once the pod shows it. With `write_at` it
    is not on its way to the pod, and is written from then on if the pod still waits."""

    ask: WaitingPod
    node: str
    until: float
    written: bool = False
    write_at: float | None = None
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class TriedCluster(Placing[WaitingPod], Protocol):
    """A cluster on which places are tried."""

    def take_back(self, ask: WaitingPod, node: str) -> None:
        """The place of a pod is not kept any more."""

    def planned_on(self, node: str, uid: str) -> BoundPod | None:
        """The pod of this uid that has a place on a node, with the GPUs of its shares."""

    def refusals(self, ask: WaitingPod) -> Counter[str]:
        """The number of nodes that refuse a pod, by reason."""


def put_again(given: Given, before: Mapping[str, BoundPod | None], cluster: TriedCluster) -> bool:
    """Keep a place, if the pod still fits there, on the same GPUs."""
    uid, mark = given.ask.uid, cluster.mark()
    if cluster.best(given.ask, (given.node,)) is None:
        return False
    cluster.put(given.ask, given.node)
    was, now = before[uid], cluster.planned_on(given.node, uid)
    same = was is None or now is None or was.devices == now.devices
    if not same:
        cluster.rollback(mark)
    return same
