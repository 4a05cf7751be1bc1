"""How features follow a cluster beside the scheduler cache: Pods and Nodes, as the watches show them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

# An extender that serves a file follows nothing.
if TYPE_CHECKING:
    from scheduler_ext.background import Background
    from scheduler_ext.cluster.client.transport import ServerClock
    from scheduler_ext.cluster.inventory.pod_state import PodState
    from scheduler_ext.cluster.live import LiveInventory
    from scheduler_ext.core.intree import NodeFacts
    from scheduler_ext.sources.source_status import Problem
    from scheduler_ext.wire import kube


class PodFollower:
    """Follows Pods, by their uids. All calls come from the thread of the watch."""

    def seen(self, uid: str, pod: kube.Pod, state: PodState) -> None:
        """A pod as it is now, and in the cache. To be read, and kept until `update`."""

    def unreadable(self, uid: str, pod: kube.Pod) -> None:
        """A pod exists and its amounts cannot be read."""

    def ended(self, uid: str) -> None:
        """The watch reports the end of a pod; `forget` follows."""

    def forget(self, uids: Collection[str]) -> None:
        """These pods do not exist any more. To be kept until `update`."""

    def update(self, clock: ServerClock | None) -> None:
        """Take over what was seen and forgotten; the cache is locked and up to date."""

    def known(self) -> set[str]:
        """The uids of all pods that are followed, in a set of their own; the cache is locked."""
        return set()

    def listed(self) -> None:
        """A list is complete."""


class NodeFollower:
    """Follows Nodes, by their names. All calls come from the thread of the watch."""

    def seen(self, name: str, node: kube.Node, facts: NodeFacts) -> None:
        """A node as it is now. To be read, and kept until `update`. Raises QuantityError."""

    def forget(self, names: Collection[str]) -> None:
        """These nodes do not exist any more. To be kept until `update`."""

    def update(self) -> None:
        """Take over what was seen and forgotten; the cache is locked and up to date."""


@dataclass(frozen=True, kw_only=True)
class Following:
    """The parts of a feature; the loops start and stop with the extender."""

    pods: Sequence[PodFollower] = ()
    nodes: Sequence[NodeFollower] = ()
    loops: Sequence[Background] = ()


class Follower(Protocol):
    """A feature that may follow a cluster."""

    def follow(self, live: LiveInventory) -> Following:
        """Make its parts. `live` is not complete yet: it is to be kept, not used."""

    def changed(self) -> None:
        """The cluster has changed."""

    def problems(self) -> Sequence[Problem]:
        """What does not work."""
