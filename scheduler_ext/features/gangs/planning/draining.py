"""The cluster that a plan for gangs is made on: pods also leave it, and leave it in trials."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from scheduler_ext.core.cycle.placing import Placing
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.request.gang_request import GangKey

Ask = TypeVar("Ask", contravariant=True)

Topology = Mapping[str, Mapping[str, str]]
"""By label key (or NODE_POOL): the value of each node that has one."""


@dataclass(frozen=True, slots=True)
class Running:
    """A pod on a node. `ends_at` is when it ends at the latest, by its stated duration; None if unknown. One
    that is `leaving` has been deleted or evicted and needs no further cause to go. Pods of one `gang` leave
    together. One that is `planned` (by its description) has only been put there: it is waited for, too, and
    never evicted."""

    pod: BoundPod
    node: str
    ends_at: float | None = None
    leaving: bool = False
    gang: GangKey | None = None
    planned: Any = None

    @property
    def uid(self) -> str:
        return self.pod.uid


class Draining(Placing[Ask], Protocol[Ask]):
    """A cluster from which pods leave."""

    @property
    def nodes(self) -> Collection[str]:
        """The names of all nodes that pods are placed on."""

    def remove(self, running: Running) -> None:
        """The pod has left its node."""

    def bring_back(self, running: Running) -> None:
        """A pod that has left is on its node again, as it was."""

    def take_back(self, ask: Ask, node: str) -> None:
        """The pod that was put on the node is not there."""

    def part_asked(self, asks: Iterable[Ask], nodes: Collection[str]) -> float:
        """What these pods ask of the GPUs of nodes, as a part of them; 0 of nodes without any."""

    def within_reach(self, ask: Ask) -> Collection[str]:
        """The nodes that take the pod now, or would if other pods left."""


def remove_all(cluster: Draining[Ask], pods: Iterable[Running]) -> None:
    """All of these have left."""
    for pod in pods:
        cluster.remove(pod)


def bring_all_back(cluster: Draining[Ask], pods: Iterable[Running]) -> None:
    """All of these, which have left, are on their nodes again."""
    for pod in pods:
        cluster.bring_back(pod)
