"""What a planner follows beside the scheduler cache: the waiting pods with all that they ask, and what each
node has left of resources that are no GPU's. Objects are read before the lock of the cache is taken."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import NamedTuple, TypeAlias

from cachetools import LRUCache

from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.cluster.following import NodeFollower, PodFollower
from scheduler_ext.cluster.inventory.pod_state import PodState
from scheduler_ext.core.intree import NodeFacts, PodNeeds, needs_key
from scheduler_ext.core.node.node import BoundPod, PendingPod
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.features.gangs.planning.node_rooms import NodeRooms
from scheduler_ext.features.gangs.planning.waiting_pod import (
    Amounts,
    WaitingPod,
    amounts_needed,
    amounts_offered,
    asked_gpus,
)
from scheduler_ext.wire import kube
from scheduler_ext.wire.gangs import gates_in_words
from scheduler_ext.wire.pod.held_spec import held_spec
from scheduler_ext.wire.pod.pod_amounts import other_requests, quantities
from scheduler_ext.wire.pod.pod_identity import is_finished
from scheduler_ext.wire.pod.pod_needs import OFTEN_MET, PREFERENCES, not_modelled, pod_needs
from scheduler_ext.wire.redacted import spec_key

_REMEMBERED = 512


class _PlacedAmounts(NamedTuple):
    """A pod on a node, and what it takes of it."""

    node: str
    amounts: Amounts


_FollowedPod: TypeAlias = WaitingPod | _PlacedAmounts | None
"""None: the pod neither waits for GPUs nor takes anything of a node."""


class _SpecRequest(NamedTuple):
    """What pods of one spec ask."""

    needs: PodNeeds
    amounts: Amounts
    not_modelled: tuple[str, ...]
    invalid: str | None


class FollowedNodes(NodeFollower):
    """Keeps the Nodes of `rooms` as kube-scheduler's own filters compare them."""

    def __init__(self, rooms: NodeRooms) -> None:
        self._rooms = rooms
        # What was seen since the last update; None: the node is gone.
        self._read: dict[str, tuple[NodeFacts, Amounts] | None] = {}

    def upsert(self, name: str, node: kube.NodeObject, facts: NodeFacts) -> None:
        status = node.status or kube.NodeStatus()
        self._read[name] = facts, amounts_offered(quantities(status.allocatable))

    def forget(self, names: Collection[str]) -> None:
        self._read.update(dict.fromkeys(names))

    def update(self) -> None:
        for name, read in self._read.items():
            if read is None:
                self._rooms.remove_node(name)
            else:
                self._rooms.update_node(name, *read)
        self._read = {}


class FollowedCluster(PodFollower):
    """The pods, and the rooms of `nodes`. Beside the methods of a follower, all need the lock of the cache.
    `changed` is called after each update."""

    def __init__(
        self, resources: ResourceNames, scheduler_names: Iterable[str], changed: Callable[[], None]
    ) -> None:
        self.rooms = NodeRooms()
        self.nodes = FollowedNodes(self.rooms)
        self.clock: ServerClock | None = None
        self._changed = changed
        # What was seen since the last update.
        self._read: dict[str, _FollowedPod] = {}
        self._resources = resources
        self._scheduler_names = frozenset(scheduler_names)
        self._asked: LRUCache[bytes, _SpecRequest] = LRUCache(_REMEMBERED)
        self._kinds: LRUCache[Hashable, int] = LRUCache(16 * _REMEMBERED)
        self._kind = 0
        self._came = 0
        self._waiting: dict[str, WaitingPod] = {}
        # The waiting pods in kube-scheduler's order, with their ranks, and how many ask each resource.
        self._ranks: list[tuple[int, float, int]] = []
        self._order: list[WaitingPod] = []
        self._resources_asked: Counter[str] = Counter()

    def upsert(self, uid: str, pod: kube.Pod, state: PodState) -> None:
        self._read[uid] = self._as_followed(pod, state)

    def forget(self, uids: Collection[str]) -> None:
        self._read.update(dict.fromkeys(uids))

    def update(self, clock: ServerClock | None) -> None:
        self.clock = clock or self.clock
        for uid, pod in self._read.items():
            if isinstance(pod, _PlacedAmounts):
                self.rooms.place(uid, *pod)
            else:
                self.rooms.remove(uid)
            self._wait(uid, pod if isinstance(pod, WaitingPod) else None)
        self._read = {}
        self._changed()

    def known(self) -> set[str]:
        return {*self.rooms.pods(), *self._waiting}

    def waiting(self) -> list[WaitingPod]:
        """All waiting pods, in kube-scheduler's order."""
        return self._order.copy()

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """The waiting pod of this uid."""
        return self._waiting.get(uid)

    def by_uid(self) -> dict[str, WaitingPod]:
        """The same by uid."""
        return self._waiting.copy()

    def resources(self) -> set[str]:
        """What waiting pods ask of nodes beside GPUs, and have asked before: a plan may still have pods that
        are gone."""
        if len(self._resources_asked) > _REMEMBERED:
            self._resources_asked = +self._resources_asked
        return set(self._resources_asked)

    def _as_followed(self, pod: kube.Pod, state: PodState) -> _FollowedPod:
        spec = pod.spec or kube.PodSpec()
        if is_finished(pod):
            return None
        if spec.node_name:
            known = state[0] if isinstance(state, tuple) and isinstance(state[0], BoundPod) else None
            asked = other_requests(held_spec(pod), self._resources) if known is None else known.other_requests
            return _PlacedAmounts(spec.node_name, amounts_needed(asked, frozenset()))
        if isinstance(state, PendingPod) and self._is_ours(state):
            return self._waiting_pod(pod, spec, state)
        return None

    def _is_ours(self, pending: PendingPod) -> bool:
        return pending.scheduler_name in self._scheduler_names and not pending.pod.terminating

    def _waiting_pod(self, pod: kube.Pod, spec: kube.PodSpec, state: PendingPod) -> WaitingPod:
        asked = self._asked_by(pod, spec)
        request = state.pod.request
        return WaitingPod(
            pod=state.pod,
            needs=asked.needs,
            amounts=asked.amounts,
            kind=self._kind_of(request, asked),
            gpus=asked_gpus(request),
            was_tried=_was_tried(pod),
            nominated=state.nominated_node,
            planned=state.planned,
            not_modelled=tuple(each for each in asked.not_modelled if each not in OFTEN_MET),
            unchecked=tuple(each for each in asked.not_modelled if each in OFTEN_MET),
            invalid=state.invalid or asked.invalid,
            gated=state.gated,
        )

    def _asked_by(self, pod: kube.Pod, spec: kube.PodSpec) -> _SpecRequest:
        key = spec_key(spec)
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = self._read_spec(pod)
        return asked

    def _read_spec(self, pod: kube.Pod) -> _SpecRequest:
        # Gates are known from the pod's state, and no obstacle to the plan for others.
        gates = gates_in_words(pod)
        features = tuple(each for each in not_modelled(pod) if each not in gates and each not in PREFERENCES)
        try:
            needs = pod_needs(pod)
        except QuantityError as error:
            return _SpecRequest(_NO_NEEDS, {}, features, str(error))
        ours = frozenset(name for name in needs.requests if self._resources.is_gpu(name))
        return _SpecRequest(needs, amounts_needed(needs.requests, ours), features, None)

    def _kind_of(self, request: GpuRequest, asked: _SpecRequest) -> int:
        key = request, needs_key(asked.needs), asked.needs.preferred_terms
        kind = self._kinds.get(key)
        if kind is None:
            self._kind += 1
            kind = self._kinds[key] = self._kind
        return kind

    def _wait(self, uid: str, pod: WaitingPod | None) -> None:
        before = self._waiting.pop(uid, None)
        if before is not None:
            place = bisect_left(self._ranks, before.rank)
            del self._ranks[place], self._order[place]
            self._resources_asked.subtract(before.amounts.keys())
        if pod is None:
            return
        if before is None:
            self._came += 1
        pod = pod.numbered(self._came if before is None else before.number)
        self._waiting[uid] = pod
        # No two pods have the same number.
        place = bisect_left(self._ranks, pod.rank)
        self._ranks.insert(place, pod.rank)
        self._order.insert(place, pod)
        self._resources_asked.update(pod.amounts.keys())


def _was_tried(pod: kube.Pod) -> bool:
    conditions = (pod.status.conditions or ()) if pod.status is not None else ()
    # The API server writes this condition on pods with gates, too, and it stays until they are tried.
    return any(
        each.type == "PodScheduled" and each.status == "False" and each.reason != "SchedulingGated"
        for each in conditions
    )


_NO_NEEDS = PodNeeds(None, {}, None, (), {})
