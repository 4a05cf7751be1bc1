"""Writes what a step decided about gangs: places in the scheduler cache, nominations on the pods, and gates,
which go once the watch shows the nominations of all members."""

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.cluster.client.retry import Backoff, Retry
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.node.node import PlannedNode
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.core.request.gang_request import GangKey
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.features.gangs.live.gang_assembly import Assembled
from scheduler_ext.features.gangs.live.gang_calls import GangCalls, PodReference
from scheduler_ext.features.gangs.live.gang_events import GangEvents
from scheduler_ext.features.gangs.live.gang_execution import GangExecution
from scheduler_ext.features.gangs.live.gang_pods import GangPods
from scheduler_ext.features.gangs.live.nomination_writer import Write
from scheduler_ext.features.gangs.live.own_writes import OwnWrites
from scheduler_ext.features.gangs.planning.gang import Gang, MemberState
from scheduler_ext.features.gangs.planning.gang_decisions import Decisions, GangNomination
from scheduler_ext.features.gangs.planning.gang_failures import Remembered
from scheduler_ext.features.gangs.planning.gang_step import GangPolicy
from scheduler_ext.features.gangs.planning.waiting_pod import WaitingPod
from scheduler_ext.wire.planned_annotation import ONLY_NODE

log = logging.getLogger(__name__)

# A place that is kept without a nomination, beyond the next step.
_RESERVED_S = 10.0
# A nomination that the watch does not show by then is written again.
_WRITTEN_S = 2.0
_LIFTS_AT_ONCE = 4
# Deadlines are written in whole seconds.
_ROUNDED_S = 1.0


class ActiveCache(Protocol):
    """The cluster as a running extender knows it."""

    locked: LockedCache

    def active(self) -> bool: ...


@dataclass(slots=True)
class _HandedNomination:
    """A nomination that was handed to the writer."""

    node: str
    at: float


@dataclass(frozen=True, slots=True)
class _DecidedStep:
    """What was decided, and about which gangs: `gangs` by the uids of their members. `server_now` is the API
    server's time, and the next step ends in `next_s`."""

    decisions: Decisions[WaitingPod]
    found: Assembled[WaitingPod]
    gangs: Mapping[str, Gang[WaitingPod]]
    now: float
    server_now: float
    next_s: float

    @property
    def given(self) -> dict[str, GangNomination]:
        """The places of members by uid."""
        return {each.uid: each for each in self.decisions.nominate}


class GangWrites:
    """For one thread."""

    def __init__(
        self,
        transport: Transport,
        source: ActiveCache,
        pods: GangPods,
        events: GangEvents,
        policy: GangPolicy,
    ) -> None:
        self._source = source
        self._pods = pods
        self._policy = policy
        self._execution = GangExecution(GangCalls(transport), events, source.active)
        self._pool = ThreadPoolExecutor(_LIFTS_AT_ONCE, thread_name_prefix="gates")
        self._retry = Retry(transport.server, Backoff(), probes=False)
        self._asked: dict[str, _HandedNomination] = {}
        # What was handed to the writer about gangs that wait, and when.
        self._handed_over: dict[GangKey, tuple[Remembered, float]] = {}
        # When the removal of gates failed.
        self._failed_at: dict[GangKey, float] = {}
        self.own = OwnWrites()
        self.reserved: frozenset[str] = frozenset()
        """The members whose places are kept without a nomination."""

    def stop(self) -> None:
        """Remove no more gates."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def forget(self) -> None:
        """Another extender is active."""
        self._asked, self._handed_over, self.reserved = {}, {}, frozenset()

    def pause_s(self) -> float:
        """The time until something may be written, after the API server refused it."""
        return self._retry.left_s()

    def not_evicted(self) -> Collection[GangKey]:
        """The gangs whose evictions the API server refused a short time ago."""
        return self._execution.left_alone()

    def refused(self) -> dict[str, str]:
        """Why the API server refuses for now to remove the gates of pods, by uid."""
        return self._execution.refused()

    def carry_out(
        self,
        decisions: Decisions[WaitingPod],
        found: Assembled[WaitingPod],
        snapshot: Snapshot,
        budgets: Sequence[Budget],
        server_now: float,
        next_s: float,
    ) -> tuple[list[Write], set[str]]:
        """Do what was decided with these budgets; the next step ends in `next_s` or so. Returns the
        nominations to write, and the nodes whose places changed."""
        gangs = {member.uid: gang for gang in found.gangs for member in gang.members}
        now = time.monotonic()
        self._asked = {uid: asked for uid, asked in self._asked.items() if now < asked.at + _WRITTEN_S}
        step = _DecidedStep(decisions, found, gangs, now, server_now, next_s)
        writes = self._settled(step)
        nodes: set[str] = set()
        try:
            # All that follows may fail, and no other pod may take what is freed for a gang.
            nodes = self._keep(step)
            writes += [*self._withdrawn(step), *self._nominated(step), *self._remembered(step)]
            self._evict(step, snapshot, budgets, nodes)
            self._lift(step)
        except ClusterError as error:
            log.warning("gangs: %s; trying again", error)
            self._retry.failed(error)
            nodes |= self._keep(step, self._retry.left_s())
        else:
            self._retry.reset()
        return writes, nodes

    def _settled(self, step: _DecidedStep) -> list[Write]:
        for uid in step.decisions.settle:
            self.own.placed(uid, None, None)
        return [Write(step.found.pods[uid], None) for uid in step.decisions.settle]

    def _evict(
        self, step: _DecidedStep, snapshot: Snapshot, budgets: Sequence[Budget], changed: Iterable[str]
    ) -> None:
        """Evict pods once the filter knows what is kept on the nodes that changed."""
        if not step.decisions.evict:
            return
        self._source.locked.publish(changed)
        on_nodes = {pod.uid: pod for node in snapshot.nodes.values() for pod in node.info.pods}
        pods: dict[str, PodReference] = {**on_nodes, **step.found.pods}
        self._execution.evict(step.decisions.evict, pods, budgets, self.own.gone)

    def _keep(self, step: _DecidedStep, pause_s: float = 0.0) -> set[str]:
        """Keep the places of members, with and without nominations, until the next step after a pause;
        returns the nodes that changed."""
        given = step.given
        asks = {member.uid: member.ask for gang in step.gangs.values() for member in gang.joining}
        reserved = {
            uid: node
            for each in step.decisions.reservations
            for uid, node in each.places.items()
            if uid not in given and uid in asks
        }
        over = (self.reserved | set(step.decisions.withdraw)) - reserved.keys() - given.keys()
        with self._source.locked as cache:
            before = [cache.kept(uid) for uid in over]
            for uid in over:
                cache.unplan(uid)
            for uid, node in reserved.items():
                until = step.now + step.next_s + pause_s + _RESERVED_S
                cache.plan(replace(asks[uid].pod, expected=True), node, until)
            for uid, each in given.items():
                cache.plan(asks[uid].pod, each.node, step.now + self._kept_s(each, step))
        self.reserved = frozenset(reserved)
        nodes = {*reserved.values(), *(each.node for each in given.values())}
        return nodes | {place.node for place in before if place is not None}

    def _kept_s(self, given: GangNomination, step: _DecidedStep) -> float:
        """How long a nomination keeps its place."""
        least_s = self._policy.starting_s
        return least_s if given.deadline is None else max(least_s, given.deadline - step.server_now)

    def _withdrawn(self, step: _DecidedStep) -> list[Write]:
        """The nominations that go. The deadline of a gang that has begun stays; to another one nothing is
        promised any more. Its condition stays and says so: with the only condition that anybody applied to a
        gated pod, the API server would remove those that it made itself (PodScheduled), which the admission
        policy refuses."""
        writes = []
        for uid in step.decisions.withdraw:
            pod = step.found.pods[uid]
            self._asked.pop(uid, None)
            if pod.state is not MemberState.BOUND:
                gang = step.gangs[uid]
                until = pod.deadline if gang.has_begun else None
                self.own.placed(uid, None, until)
                remembered = Remembered() if until is None else None
                writes.append(Write(pod, None, _notes("", gang), until, remembered))
        return writes

    def _nominated(self, step: _DecidedStep) -> list[Write]:
        """Nominations that the watch does not show; never in the place of one by another component."""
        writes = []
        joining = (member for gang in step.found.gangs for member in gang.joining)
        foreign = {member.uid for member in joining if member.ask.is_foreign}
        for each in step.decisions.nominate:
            if each.uid in foreign:
                continue
            if self._is_written(each) or self._is_asked(each, step.now):
                continue
            end = step.server_now + self._policy.starting_s if each.deadline is None else each.deadline
            gang = step.gangs[each.uid]
            pod, notes = step.found.pods[each.uid], _notes(each.node, gang)
            remembered = step.decisions.remembered(gang.key) if each.uid == _carrier(gang) else None
            writes.append(Write(pod, PlannedNode(each.node, end), notes, each.deadline, remembered))
            self._asked[each.uid] = _HandedNomination(each.node, step.now)
        return writes

    def _remembered(self, step: _DecidedStep) -> list[Write]:
        """What a member of each waiting gang is to say of it and does not. Together with a nomination, it is
        written there."""
        writes = []
        given, pods = step.given, step.found.pods
        self._handed_over = {
            key: (remembered, at)
            for key, (remembered, at) in self._handed_over.items()
            if step.now < at + _WRITTEN_S
        }
        for gang in step.found.gangs:
            if gang.has_begun or not gang.joining or any(each.uid in given for each in gang.members):
                continue
            remembered, carrier = step.decisions.remembered(gang.key), pods[_carrier(gang)]
            handed_over, _ = self._handed_over.get(gang.key, (None, 0.0))
            if remembered in (carrier.remembered or Remembered(), handed_over):
                continue
            self._handed_over[gang.key] = remembered, step.now
            writes.append(Write(carrier, None, _notes("", gang), remembered=remembered))
        return writes

    def _is_written(self, given: GangNomination) -> bool:
        """Whether the watch shows the nomination of a pod."""
        pod = self._pods.get(given.uid)
        if pod is None or pod.nominated != given.node:
            return False
        if given.deadline is None:
            return True
        if pod.deadline is None:
            return False
        return abs(given.deadline - pod.deadline) < _ROUNDED_S

    def _is_asked(self, given: GangNomination, now: float) -> bool:
        """Whether the nomination is on its way."""
        asked = self._asked.get(given.uid)
        return asked is not None and asked.node == given.node and now < asked.at + _WRITTEN_S

    def _lift(self, step: _DecidedStep) -> None:
        """Remove the gates of gangs whose nominations are all written, and those of pods that need none."""
        given, pods = step.given, step.found.pods
        begun = {gang.key for gang in step.found.gangs if gang.has_begun or gang.has_started}
        failed: ClusterError | None = None
        # Those whose gates failed come last, in turns: the gates of some namespaces alone may fail.
        gangs = {step.gangs[uids[0]].key: uids for uids in step.decisions.lift}
        self._failed_at = {key: at for key, at in self._failed_at.items() if key in gangs}
        for key in sorted(gangs, key=lambda key: self._failed_at.get(key, 0.0)):
            gang = step.gangs[gangs[key][0]]
            joining = [given[member.uid] for member in gang.joining if member.uid in given]
            if not all(self._is_written(each) for each in joining):
                continue
            try:
                some = [pods[uid] for uid in gangs[key]]
                if self._execution.lift(gang, some, self._pool, self.own.lifted):
                    begun.add(key)
            except ClusterError as error:
                self._failed_at[key] = step.now
                failed = error
                break
        beside = [pod for key, some in step.found.companions.items() if key in begun for pod in some]
        if free := [pod for pod in (*beside, *step.found.alone) if pod.is_gated]:
            self._execution.lift_alone(free, self._pool, self.own.lifted)
        if failed is not None:
            raise failed


def _carrier(gang: Gang[WaitingPod]) -> str:
    """The member that says what is remembered of its gang."""
    return min(each.uid for each in gang.joining)


def _notes(node: str, gang: Gang[WaitingPod]) -> dict[str, str]:
    """The annotations of a member. One of a gang that has to be in one domain goes to this node alone."""
    return {} if gang.request.required_topology is None else {ONLY_NODE: node}
