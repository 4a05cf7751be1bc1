"""The event handlers of Nodes, GPUNodes and Pods, which update the scheduler cache, and of budgets. Objects
are decoded before the lock is taken, so that it is held for microseconds."""

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias, TypeVar

from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.cluster.event_handler import EventHandler
from scheduler_ext.cluster.events.inventory_events import ReportProblems
from scheduler_ext.cluster.failure_count import FailureCount
from scheduler_ext.cluster.planning.followed_cluster import FollowedCluster, FollowedNode, FollowedPod
from scheduler_ext.cluster.planning.gang_pods import GangPods
from scheduler_ext.cluster.run_recorder import RunRecorder
from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.held_rooms import HeldRoom
from scheduler_ext.core.errors import ImpossibleReportError
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import BoundPod, PendingPod
from scheduler_ext.core.node.pod_facts import PodFacts
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import LONGEST_PLAN_S, Configuration
from scheduler_ext.wire.cpu import pod_cpu_milli
from scheduler_ext.wire.device_selector import DeviceSelector
from scheduler_ext.wire.gpunode import GpuNode, GpuNodeMeta
from scheduler_ext.wire.held_annotation import WrittenRoom, written_rooms
from scheduler_ext.wire.kube import owner_uid
from scheduler_ext.wire.node_info import node_constraints, node_record
from scheduler_ext.wire.pod.cached_pod import bound_pod, pending_pod
from scheduler_ext.wire.pod.pod_identity import is_finished, pod_name
from scheduler_ext.wire.pod.pod_request import asks_gpu
from scheduler_ext.wire.pod_facts import pod_facts
from scheduler_ext.wire.readings import read_readings
from scheduler_ext.wire.report import read_report
from scheduler_ext.wire.times import seconds
from scheduler_ext.wire.watching import Broken

T = TypeVar("T")
log = logging.getLogger(__name__)


class _Other(NamedTuple):
    node: str
    cpu_milli: int


# The state of a pod that the cache follows: bound to a node with GPUs, or with claims, which may hold some;
# waiting for GPUs; or on a node without any. None: the cache keeps nothing of it.
PodState: TypeAlias = tuple[BoundPod, str] | PendingPod | _Other | None


def pod_state(pod: kube.Pod, resources: ResourceNames) -> PodState:
    """The state of a pod. Raises QuantityError for an amount of GPUs that cannot be read."""
    spec = pod.spec or kube.PodSpec()
    has_gpus = bool(spec.resource_claims) or asks_gpu(spec, resources)
    if spec.node_name and has_gpus:
        return bound_pod(pod, resources), spec.node_name
    if is_finished(pod):
        return None
    if spec.node_name:
        return _Other(spec.node_name, pod_cpu_milli(spec))
    waiting = pending_pod(pod, resources) if has_gpus else None
    # A placeholder waits for an autoscaler, and for no node.
    return None if waiting is not None and waiting.pod.request.is_placeholder else waiting


def holds_gpus(state: PodState) -> bool:
    """Whether it is that of a pod on a node which has GPUs there, or may have some by a claim."""
    return isinstance(state, tuple) and not isinstance(state, _Other)


def scheduler_cache(config: Configuration) -> Cache:
    """A cache of nothing yet."""
    return Cache(
        *config.inventory_ages_s(),
        config.resource_names(),
        config.bind.enabled,
        DeviceSelector,
        allow_unreported=config.allows_unreported(),
    )


def update_pod(
    cache: Cache, uid: str, state: PodState, now: float, planned_until: float | None = None
) -> None:
    """Update the cache with the state of a pod; `planned_until` as of `Cache.update_pending`."""
    if state is None:
        cache.remove_pod(uid, now)
    elif isinstance(state, _Other):
        cache.update_other_pod(uid, state.node, state.cpu_milli)
    elif isinstance(state, PendingPod):
        cache.update_pending(state, planned_until)
    else:
        cache.confirm(*state, now)


@dataclass(eq=False)
class CacheHandler(EventHandler[T]):
    """Updates the cache; `changed` is called after each update."""

    _locked: LockedCache
    _resources: ResourceNames
    _changed: Callable[[], None]


@dataclass(eq=False)
class NodeHandler(CacheHandler[kube.Node]):
    """Nodes: their amounts and labels, and for explanations what kube-scheduler's own filters compare."""

    kind = "Node"
    together = 50
    facts: dict[str, NodeFacts] = field(default_factory=dict)
    # What a planner follows, where there is one.
    planned: FollowedCluster | None = field(default=None, init=False)

    def seen(self, items: Sequence[kube.Node], clock: ServerClock) -> None:
        records = []
        followed: dict[str, FollowedNode] = {}
        for node in items:
            name = self.key(node)
            self._unlisted.discard(name)
            self.facts[name] = node_constraints(node)
            try:
                records.append((name, node_record(node, self._resources)))
                if self.planned is not None:
                    followed[name] = self.planned.read_node(node, self.facts[name])
            except QuantityError as error:
                self.broken(Broken(name, "", str(error)))
        now = time.monotonic()
        created = {self.key(node): created_at(node, clock, now) for node in items}
        with self._locked as cache:
            for name, record in records:
                cache.update_node(name, record, now, created[name])
            for name, each in followed.items():
                assert self.planned is not None
                self.planned.rooms.update_node(name, each.facts, each.offered)
        self._changed()

    def known(self) -> set[str]:
        with self._locked as cache:
            return cache.nodes() | self.facts.keys()

    def remove(self, keys: Collection[str]) -> None:
        for name in keys:
            self.facts.pop(name, None)
        with self._locked as cache:
            for name in keys:
                cache.remove_node(name)
                if self.planned is not None:
                    self.planned.rooms.remove_node(name)
        self._changed()


@dataclass(eq=False)
class ReportHandler(CacheHandler[GpuNode]):
    """GPUNodes: the reports of agents, and when the API server received them."""

    kind = "GPUNode"
    together = 15
    _problems: ReportProblems
    # The uid of the object that holds a node's last good report. An object that was created again while no
    # watch ran numbers its reports from 1.
    _uids: dict[str, str | None] = field(default_factory=dict, init=False)

    def seen(self, items: Sequence[GpuNode], clock: ServerClock) -> None:
        for node in items:
            self._take(node, clock)
        self._changed()

    def broken(self, item: Broken) -> None:
        self._unlisted.discard(item.name)
        self._refuse(item.name, f"GPUNode {item.name}: {item.problem}; the report is refused")
        self._changed()

    def known(self) -> set[str]:
        with self._locked as cache:
            return cache.reports() | self._problems.nodes()

    def remove(self, keys: Collection[str]) -> None:
        now = time.monotonic()
        for name in keys:
            with self._locked as cache:
                cache.remove_report(name, now)
            self._uids.pop(name, None)
            self._problems.gone(name)
        self._changed()

    def _take(self, node: GpuNode, clock: ServerClock) -> None:
        metadata = node.metadata or GpuNodeMeta()
        name = self.key(node)
        self._unlisted.discard(name)
        with self._locked as cache:
            previous, received = cache.last_report(name)
        if self._uids.get(name, metadata.uid) != metadata.uid:
            previous = None
        try:
            report = read_report(node, previous)
        except ImpossibleReportError as error:
            self._refuse(name, str(error))
            return
        now = time.monotonic()
        if report is None:
            with self._locked as cache:
                cache.remove_report(name, now)
            self._problems.gone(name)
            return
        received = _when(report, previous, received, metadata, clock, now)
        with self._locked as cache:
            cache.update_report(
                name, report, received, now, owner_uid(metadata.owner_references), read_readings(node)
            )
            cache.update_held(name, [_held(each, clock, now) for each in written_rooms(node)])
        self._uids[name] = metadata.uid
        self._problems.accepted(name, report.cordoned_strangers)

    def _refuse(self, name: str, problem: str) -> None:
        log.error("%s", problem)
        self._problems.refused(name, problem)


@dataclass(eq=False)
class PodHandler(CacheHandler[kube.Pod]):
    """Pods that hold GPUs of a node or wait for some, and the CPU of the other pods on nodes. `facts` are
    those about the pods that hold some, `gangs` those about gangs, where these are planned; `runs` follows
    how long pods hold GPUs."""

    kind = "Pod"
    together = 250
    by_uid = True
    facts: dict[str, PodFacts] = field(default_factory=dict, init=False)
    failures: FailureCount = field(default_factory=FailureCount, init=False)
    runs: RunRecorder | None = field(default=None, init=False)
    # What a planner follows, where there is one.
    planned: FollowedCluster | None = field(default=None, init=False)
    # What gangs need, where they are planned.
    gangs: GangPods | None = field(default=None, init=False)

    def begin(self) -> None:
        super().begin()
        with self._locked as cache:
            cache.demand.hold()

    def seen(self, items: Sequence[kube.Pod], clock: ServerClock) -> None:
        # By uid: of several events of one pod in one batch, the last counts.
        states: dict[str, PodState] = {}
        followed: dict[str, FollowedPod] = {}
        for pod in items:
            if self.gangs is not None:
                self.gangs.seen(self.key(pod), pod)
            try:
                states[self.key(pod)] = state = pod_state(pod, self._resources)
            except QuantityError as error:
                self.broken(Broken(pod_name(pod), self.key(pod), str(error)))
                continue
            if holds_gpus(state):
                self.facts[self.key(pod)] = pod_facts(pod)
                self.failures.seen(self.key(pod), pod)
            if self.planned is not None:
                followed[self.key(pod)] = self.planned.read_pod(pod, state)
        if self.runs is not None:
            self._record(self.runs, states)
        self._update(states, followed, clock)

    def gone(self, item: kube.Pod | Broken) -> None:
        if self.runs is not None:
            self.runs.gone((self.key(item),))
        super().gone(item)

    def known(self) -> set[str]:
        with self._locked as cache:
            followed = self.planned.known_pods() if self.planned is not None else set()
            found = cache.known_pods() | cache.other_pods() | followed
        return found | self.gangs.known() if self.gangs is not None else found

    def remove(self, keys: Collection[str]) -> None:
        for uid in keys:
            self.facts.pop(uid, None)
        if self.runs is not None:
            self.runs.gone(keys, just_now=False)
        self.failures.forget(keys)
        if self.gangs is not None:
            self.gangs.forget(keys)
        self._update(dict.fromkeys(keys), dict.fromkeys(keys))

    def end(self) -> None:
        super().end()
        self.failures.listed()
        with self._locked as cache:
            cache.demand.release()

    def _record(self, runs: RunRecorder, states: Mapping[str, PodState]) -> None:
        for uid, state in states.items():
            if isinstance(state, tuple) and not isinstance(state, _Other):
                runs.seen(state[0], self.facts[uid])

    def _update(
        self,
        states: Mapping[str, PodState],
        followed: Mapping[str, FollowedPod],
        clock: ServerClock | None = None,
    ) -> None:
        self._unlisted.difference_update(states)
        now = time.monotonic()
        until = {uid: planned_until(state, clock, now) for uid, state in states.items()}
        with self._locked as cache:
            for uid, state in states.items():
                update_pod(cache, uid, state, now, until[uid])
            if self.planned is not None:
                self.planned.update_pods(followed, clock)
            changed = cache.has_changes
        if changed:
            self._changed()


def received_at(
    metadata: GpuNodeMeta, clock: ServerClock, now: float, otherwise: float | None = None
) -> float:
    """When the API server took the last status, by our monotonic clock: neither the agent's clock nor the
    moment of reading counts. `otherwise` (`now`) where no entry of managedFields has the time."""
    stamps = [seconds(entry.time) for entry in metadata.managed_fields or () if entry.subresource == "status"]
    stamp = max((stamp for stamp in stamps if stamp is not None), default=None)
    if stamp is None:
        return now if otherwise is None else otherwise
    return _as_of(now, clock).monotonic(stamp)


def created_at(node: kube.Node, clock: ServerClock, now: float) -> float:
    """When a Node was created, by our monotonic clock: an extender that starts later gives its agent no more
    time. `now` without that time."""
    created = seconds(node.metadata.creation_timestamp if node.metadata is not None else None)
    return now if created is None else _as_of(now, clock).monotonic(created)


def _as_of(now: float, clock: ServerClock) -> ServerClock:
    """The server's clock as it is now: a stream has its time only once, at its start."""
    return ServerClock(clock.said + (now - clock.heard_at), now, clock.not_before)


def planned_until(state: PodState, clock: ServerClock | None, now: float) -> float | None:
    """Until when the nomination of a planner keeps a pod's place, by our monotonic clock; None for any other
    pod, and when that time is over."""
    if clock is None or not isinstance(state, PendingPod) or state.planned is None:
        return None
    left_s = min(state.planned.until - _as_of(now, clock).said, LONGEST_PLAN_S)
    return now + left_s if left_s > 0 else None


def _held(written: WrittenRoom, clock: ServerClock, now: float) -> HeldRoom:
    """A held room with its end by our monotonic clock, from the server's."""
    left_s = written.until - _as_of(now, clock).said
    return HeldRoom(written.name, now + left_s, written.priority, written.request())


def _when(
    report: Report,
    previous: Report | None,
    received: float,
    metadata: GpuNodeMeta,
    clock: ServerClock,
    now: float,
) -> float:
    """`received_at` for a report that may have been `received` before: a label or an annotation that
    changed since does not make it younger, nor does a clock that was set."""
    if previous is None:
        return received_at(metadata, clock, now)
    numbered = report.sequence is not None
    if numbered and (report.boot_id, report.sequence) == (previous.boot_id, previous.sequence):
        return received
    if numbered or report.devices != previous.devices:
        return received_at(metadata, clock, now)
    # Without a number, only a stamp shows that it was written again.
    return received_at(metadata, replace(clock, not_before=-math.inf), now, received)


@dataclass(eq=False)
class BudgetHandler(EventHandler[kube.PodDisruptionBudget]):
    """Keeps all PodDisruptionBudgets; `budgets` may be called from any thread."""

    kind = "PodDisruptionBudget"
    together = 250
    by_uid = True
    _by_uid: dict[str, Budget] = field(default_factory=dict, init=False)

    def budgets(self) -> tuple[Budget, ...]:
        """All budgets."""
        return tuple(self._by_uid.values())

    def seen(self, items: Sequence[kube.PodDisruptionBudget], clock: ServerClock) -> None:
        self._unlisted.difference_update(map(self.key, items))
        self._by_uid.update((self.key(item), kube.budget(item)) for item in items)

    def known(self) -> set[str]:
        return set(self._by_uid)

    def remove(self, keys: Collection[str]) -> None:
        for uid in keys:
            self._by_uid.pop(uid, None)
