"""How features follow a cluster beside the scheduler cache: Pods and Nodes, as the watches show them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

# An extender that serves a file follows nothing.
if TYPE_CHECKING:
    from scheduler_ext.background import Background
    from scheduler_ext.binding.locked_cache import LockedCache
    from scheduler_ext.cluster.client.transport import ServerClock, Transport
    from scheduler_ext.cluster.events.event_recorder import EventRecorder
    from scheduler_ext.cluster.inventory.pod_state import PodState
    from scheduler_ext.core.intree import NodeFacts
    from scheduler_ext.core.node.node import PendingPod
    from scheduler_ext.core.node.pod_facts import FactsOfPods
    from scheduler_ext.core.preemption.disruption import Budget
    from scheduler_ext.core.snapshot.snapshot import Snapshot
    from scheduler_ext.extender.extender import Extender
    from scheduler_ext.sources.source_status import Problem, SourceStatus
    from scheduler_ext.wire import kube
    from scheduler_ext.wire.pod.pod_claims import ClaimLookup


class Live(Protocol):
    """A followed cluster, as features see it; `recorder` writes Events about pods and nodes."""

    transport: Transport
    extender: Extender
    locked: LockedCache
    recorder: EventRecorder

    def active(self) -> bool:
        """Whether this extender writes to the cluster."""

    def follows_pods(self) -> bool:
        """Whether the watch of pods is alive."""

    def publish_soon(self) -> None:
        """The cache has changed."""

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that the extender decides on."""

    def status(self) -> SourceStatus:
        """The state of all that is followed."""

    def pending(self) -> Sequence[PendingPod]:
        """The pods that request GPUs and have no node yet."""

    def node_facts(self) -> Mapping[str, NodeFacts]:
        """The fields of each Node that kube-scheduler's own filters compare, without amounts."""

    @property
    def latest_facts(self) -> Mapping[str, NodeFacts]:
        """The same, as they change."""

    @property
    def facts(self) -> FactsOfPods:
        """Those about the pods that hold GPUs, as they change."""

    def budgets(self) -> Sequence[Budget]:
        """The PodDisruptionBudgets."""

    @property
    def claims(self) -> ClaimLookup | None:
        """The ResourceClaims; none where the cluster has none."""

    @property
    def rules_path(self) -> str | None:
        """The path of DeviceTaintRules once they are listed."""

    @property
    def namespace(self) -> str:
        """The namespace of what extenders share."""


class PodFollower:
    """Follows Pods, by their uids. All calls come from the thread of the watch."""

    def upsert(self, uid: str, pod: kube.Pod, state: PodState) -> None:
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

    def upsert(self, name: str, node: kube.NodeObject, facts: NodeFacts) -> None:
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


class Follower:
    """The features, which may follow a cluster; here, none of them does."""

    def follow(self, live: Live) -> Following:
        """Make their parts. `live` is being made: its attributes `transport`, `extender`, `locked` and
        `recorder`, and `active` and `namespace` may be used, all else by the loops once they run."""
        return Following()

    def changed(self) -> None:
        """The cluster has changed."""

    def problems(self) -> Sequence[Problem]:
        """What does not work."""
        return ()
