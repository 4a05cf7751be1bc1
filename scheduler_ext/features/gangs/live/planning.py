"""The thread that plans on a live cluster: places for pods that kube-scheduler found no node for, and for
gangs, kept in the scheduler cache, published for filter and written on the pods.

    waiting pods, rooms, kept places ──► Planner ──► cache ──► filter of this extender
                                                └──► NominationWriter ──► kube-scheduler"""

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Event, Lock
from typing import Protocol

from scheduler_ext.background import Background
from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.cluster.client.transport import ServerClock, Transport
from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.kept_places import KeptPlace
from scheduler_ext.core.cycle.placement import with_promised
from scheduler_ext.core.framework.refusal import KEPT_FOR_GANG
from scheduler_ext.core.node.node import NodeInfo, PlannedNode
from scheduler_ext.core.node.nominated import with_nominated_pods
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.extender import Extender
from scheduler_ext.features.gangs.counters import NOMINATIONS
from scheduler_ext.features.gangs.live.followed_cluster import FollowedCluster
from scheduler_ext.features.gangs.live.gang_planning import GangPlanning
from scheduler_ext.features.gangs.live.nomination_writer import NominationWriter, Write
from scheduler_ext.features.gangs.planning.emptied_nodes import EmptiedNodes
from scheduler_ext.features.gangs.planning.gang_decisions import Decisions
from scheduler_ext.features.gangs.planning.given_places import PlanCluster, Step
from scheduler_ext.features.gangs.planning.in_tree_filters import InTreeFilters
from scheduler_ext.features.gangs.planning.outcomes import Outcome
from scheduler_ext.features.gangs.planning.plan import Entry, Plan, State
from scheduler_ext.features.gangs.planning.planned_cluster import PlannedCluster
from scheduler_ext.features.gangs.planning.planned_nodes import PlannedNodes
from scheduler_ext.features.gangs.planning.planner import Planner
from scheduler_ext.features.gangs.planning.waiting_pod import WaitingPod
from scheduler_ext.features.gangs.settings import NominateSection
from scheduler_ext.wire.config import Configuration

log = logging.getLogger(__name__)

# Between two steps that follow from changes.
_STEP_EVERY_S = 0.1
# At the latest, for plans that end and pods that may be tried again.
_LOOK_EVERY_S = 1.0
# A reader of the plan waits no longer for the end of a step.
_READ_S = 0.5
# More than kube-scheduler asks about between two steps.
_MOST_ASKED = 4096
# Sees what is kept for any pod.
_LOWEST = -(2**31)


class PlannerCluster(Protocol):
    """The cluster as a running extender knows it."""

    locked: LockedCache

    @property
    def snapshot(self) -> Snapshot | None: ...

    def active(self) -> bool: ...

    def follows_pods(self) -> bool: ...

    def publish_soon(self) -> None: ...


class Planning(Background):
    """Plans while this extender is active and its watch of pods is alive."""

    nominations = NOMINATIONS

    def __init__(
        self,
        transport: Transport,
        source: PlannerCluster,
        extender: Extender,
        followed: FollowedCluster,
        config: Configuration,
        gangs: GangPlanning | None,
    ) -> None:
        """`gangs` are planned, too, if there are any."""
        super().__init__("planner")
        self._source = source
        self._extender = extender
        self._followed = followed
        self._ttl_s = config.of(NominateSection).duration_s("ttl")
        self._planner = Planner(self._ttl_s)
        self._in_tree = InTreeFilters()
        self._writer = NominationWriter(transport)
        # Pods that kube-scheduler has come to, since the last step.
        self._asked: deque[str] = deque(maxlen=_MOST_ASKED)
        self._changed = Event()
        self._was_active = False
        self.gangs = gangs
        self._emptied = EmptiedNodes(extender.sizing)
        self._resolved = PlannedNodes(extender.sizing)
        # For those who read the plan.
        self._lock = Lock()
        self._since: dict[str, tuple[State, float]] = {}
        self._planned_at = 0.0
        # As of the last step.
        self._seen: _StepInput | None = None
        self._read: Plan | None = None

    def start(self) -> None:
        self._writer.start()
        super().start()

    def stop(self, wait_s: float = 0.0) -> None:
        self.stopped.set()
        self._changed.set()
        self._writer.stop(wait_s)
        super().stop(wait_s)
        if self.gangs is not None:
            self.gangs.stop()

    def asked(self, uid: str) -> None:
        """A pod gets a node from filter, so kube-scheduler is about to bind it."""
        if self.gangs is None or not self.gangs.is_member(uid):
            self._asked.append(uid)

    def wake(self) -> None:
        """Something changed."""
        if self.gangs is not None:
            self.gangs.changed()
        self._changed.set()

    def run(self) -> None:
        while not self.stopped.is_set():
            self._changed.wait(self._until_next_look_s())
            self._changed.clear()
            try:
                if self._step():
                    self._changed.set()
            except Exception:
                log.exception("a step of planning failed; trying again")
            self.stopped.wait(_STEP_EVERY_S)

    def _until_next_look_s(self) -> float:
        now = time.monotonic()
        due = self._planner.next_look(now)
        return _LOOK_EVERY_S if due is None else min(_LOOK_EVERY_S, due - now)

    def is_active(self) -> bool:
        """Whether this extender is the one that plans."""
        return self._source.active()

    def plan(self) -> Plan:
        """All waiting pods as they stand now; while a step takes long, as they stood at the last call."""
        last = self._read
        if not self._lock.acquire(timeout=-1 if last is None else _READ_S):
            assert last is not None
            return last
        try:
            now, at = time.monotonic(), time.time()
            with self._source.locked:
                asks = self._followed.waiting()
            before, self._since = self._since, {}
            self._read = Plan(self._planned_at, [self._entry(ask, before, now, at) for ask in asks])
            return self._read
        finally:
            self._lock.release()

    def is_to_be_nominated(self, uid: str) -> bool:
        """Whether a pod of no gang fits now and has no nomination yet; False while a step takes long."""
        snapshot = self._source.snapshot
        if snapshot is None or not self._lock.acquire(timeout=_READ_S):
            return False
        try:
            seen = self._seen
            # kube-scheduler asks before the next step.
            with self._source.locked:
                ask = self._followed.waiting_pod(uid)
            if seen is None or ask is None or not self._is_in_turn(ask):
                return False
            state = self._planner.state_of(ask, time.monotonic())
            if state is not State.WAITING:
                return state is State.PLANNED
            return self._beside(snapshot, seen).best(ask) is not None
        finally:
            self._lock.release()

    def _entry(
        self, ask: WaitingPod, before: Mapping[str, tuple[State, float]], now: float, at: float
    ) -> Entry:
        if self.gangs is not None and self.gangs.is_member(ask.uid):
            return self.gangs.entry(ask, at)
        pod, planner = ask.pod, self._planner
        state = planner.state_of(ask, now)
        refusals = planner.refusals_of(ask) if state is State.WAITING else {}
        reason = planner.reason_of(ask, state)
        if self.gangs is not None and KEPT_FOR_GANG.text in refusals:
            state, names = State.BEHIND, ", ".join(map(str, self.gangs.ahead_of(ask)))
            reason = f"behind gang {names}, for which places are kept" if names else ""
        was, since = before.get(ask.uid, (state, at))
        since = since if was is state else at
        self._since[ask.uid] = state, since
        node, until = planner.place_of(ask.uid) or ("", None)
        return Entry(
            pod.uid,
            pod.namespace,
            pod.name,
            state,
            pod.priority,
            pod.created_at or 0.0,
            since,
            node=node or (ask.nominated if ask.is_foreign else None) or "",
            devices=planner.devices_of(ask.uid),
            reason=reason,
            refusals=refusals,
            deadline=None if until is None else at + until - now,
        )

    def _step(self) -> bool:
        """Plan once; whether another step would find more to do."""
        active = self._source.active()
        if not active and self._was_active:
            self._give_up()
        self._was_active = active
        if not active or not self._source.follows_pods():
            return False
        now = time.monotonic()
        with self._lock:
            before = self._planner.given.keys()
            # No change is in flight from the cache to the snapshot meanwhile.
            with self._source.locked.publishing:
                snapshot = self._source.snapshot
                if snapshot is None:
                    return False
                seen = self._seen = self._look(now, snapshot)
            steps, decisions = self._decide(now, snapshot, seen)
            stale = self._planner.stale(now, seen.asks)
            self._planned_at = time.time()
            given = self._planner.given
            self._extender.nominations.plan(given)
        for uid in before - given.keys():
            self._writer.drop(uid)
        server_now = seen.server_time(now)
        self._carry_out(steps, stale, server_now)
        if decisions is not None and self.gangs is not None:
            writes, nodes = self.gangs.carry_out(decisions, snapshot)
            self._writer.put(writes)
            self._source.locked.publish(nodes)
        return any(step.more for step in steps)

    def _decide(
        self, now: float, snapshot: Snapshot, seen: "_StepInput"
    ) -> tuple[list[Step], Decisions[WaitingPod] | None]:
        """Places for pods alone, and in turns of their own for gangs."""
        gangs, planner = self.gangs, self._planner
        version: tuple[int, ...] = snapshot.generation, seen.freed
        if gangs is None:
            return [planner.step(now, seen.asks, version, lambda: self._beside(snapshot, seen))], None
        version = *version, gangs.version
        if gangs.is_due(now):
            cluster = self._cluster(snapshot, seen, gangs_due=True)
            server_now = seen.server_time(now)
            moving = seen.assumed, seen.binding
            return gangs.step(
                now, seen.every, seen.members, version, planner, cluster, snapshot, *moving, server_now
            )

        return [planner.step(now, self._in_turn(seen), version, lambda: self._beside(snapshot, seen))], None

    def _is_in_turn(self, ask: WaitingPod) -> bool:
        """Whether a pod is one alone that may get a place now."""
        return self.gangs is None or bool(self.gangs.in_turn(self.gangs.alone([ask])))

    def _in_turn(self, seen: "_StepInput") -> Sequence[WaitingPod]:
        """The pods alone that may get places now."""
        return seen.asks if self.gangs is None else self.gangs.in_turn(seen.asks)

    def _beside(self, snapshot: Snapshot, seen: "_StepInput") -> PlanCluster:
        """The cluster for pods alone."""
        cluster = self._cluster(snapshot, seen)
        return cluster if self.gangs is None else self.gangs.beside(cluster, snapshot)

    def _look(self, now: float, snapshot: Snapshot) -> "_StepInput":
        """What is waiting and what is kept, after all that became of former nominations."""
        planner, gangs = self._planner, self.gangs
        planner.asked(now, [self._asked.popleft() for _ in range(len(self._asked))])
        with self._source.locked as cache:
            every = self._followed.waiting()
            asks = every if gangs is None else gangs.alone(every)
            by_uid = self._followed.by_uid() if gangs is None else {ask.uid: ask for ask in asks}
            self._end_in_vain(cache, by_uid, now)
            kept: dict[str, KeptPlace] = {}
            lost: list[str] = []
            members: dict[str, KeptPlace] = {}
            for each_kept in cache.all_kept():
                uid = each_kept.pod.uid
                if gangs is not None and gangs.is_member(uid):
                    members[uid] = each_kept
                elif each_kept.node in snapshot.nodes and self._followed.rooms.has_node(each_kept.node):
                    kept[uid] = each_kept
                else:
                    lost.append(uid)
            for uid in lost:
                cache.give_up(uid)
            assumed = {}
            if gangs is not None:
                assumed = {ask.uid: node for ask in every if (node := cache.node_of(ask.uid)) is not None}
            bound = {uid: cache.node_of(uid) for uid in planner.given if uid not in by_uid}
            binding = {ask.uid: node for ask in every if (node := cache.assumed_node(ask.uid)) is not None}
            planner.follow(now, by_uid, kept, bound, binding.keys() & planner.given.keys())
            freed, clock = self._followed.rooms.freed, self._followed.clock
            changed = {name: info for name in cache.unpublished() if (info := cache.info(name)) is not None}
        for outcome, count in planner.take_outcomes().items():
            self.nominations.inc(outcome.value, by=count)
        return _StepInput(
            asks, every, kept, members, assumed, binding, freed, clock, snapshot.generation, changed
        )

    def _end_in_vain(self, cache: Cache, asks: Mapping[str, WaitingPod], now: float) -> None:
        """End the places whose nomination could not be written, that filter refused, or that kube-scheduler
        seems to refuse."""
        planner, gangs = self._planner, self.gangs
        for each in self._writer.take_failed():
            if gangs is not None and gangs.is_member(each.uid):
                # Its step looks at once, and writes the same again after a while.
                gangs.changed()
                lasting = each.lasting and each.place is not None
                if lasting and gangs.refused(each.uid, each.why, now):
                    cache.unplan(each.uid)
                continue
            if each.may_be_bound:
                continue
            place = planner.place_of(each.uid)
            if place is not None and each.place is not None and place[0] == each.place.node:
                planner.ended(each.uid, each.outcome, now)
                cache.give_up(each.uid)
        for uid in self._extender.nominations.take_misfits():
            if gangs is not None and gangs.is_member(uid):
                gangs.changed()
                cache.unplan(uid)
            elif planner.place_of(uid) is not None and uid in asks:
                planner.ended(uid, Outcome.MISFIT, now)
                cache.give_up(uid)
        for uid in planner.untried(now):
            if uid in asks:
                planner.ended(uid, Outcome.EXPIRED, now)
                cache.give_up(uid)

    def _cluster(self, snapshot: Snapshot, seen: "_StepInput", *, gangs_due: bool = False) -> PlannedCluster:
        """The cluster with all places that are kept, those included that the snapshot does not show yet. A
        step for gangs gives their places again, and pods alone see no room that is only held for a gang."""
        with self._source.locked:
            rooms = self._followed.rooms.copy(self._followed.resources())
        view = self._in_tree.at(rooms, snapshot)
        unsettled = self._extender.preemption_answers.unsettled(snapshot).items()
        others = {
            name: other
            for name, info in unsettled
            if (other := with_nominated_pods(info, "", _LOWEST)) is not info
        }
        others |= self._unpublished(snapshot, seen)
        resolved = self._resolved.resolved
        cluster = PlannedCluster(snapshot, self._extender.sizing, view, others, self._emptied, resolved)
        by_uid = seen.by_uid
        places = dict(seen.kept)
        for uid, place in seen.members.items():
            if not gangs_due and not place.pod.expected:
                places[uid] = place
            elif (published := snapshot.planned.node_of(uid)) is not None:
                cluster.release(uid, {}, published)
        for uid, node in seen.binding.items():
            # The snapshot may show neither their kept places nor their Bindings yet.
            places[uid] = KeptPlace(by_uid[uid].pod, node, 0.0, written=False)
        for uid, place in places.items():
            ask = by_uid.get(uid)
            cluster.hold(place, ask.amounts if ask is not None else {})
        return cluster

    def _unpublished(self, snapshot: Snapshot, seen: "_StepInput") -> dict[str, NodeInfo]:
        """The nodes that have changed since the snapshot, with the places that the snapshot shows: a pod that
        came to a node a moment ago keeps what it has there, whatever the snapshot says."""
        if snapshot.generation != seen.generation:
            return {}
        found = {}
        for name in seen.changed.keys() & snapshot.nodes.keys():
            info = replace(seen.changed[name], planned=snapshot.nodes[name].info.planned)
            info = self._extender.preemption_answers.over(with_promised(info, self._extender.sizing))
            found[name] = with_nominated_pods(info, "", _LOWEST)
        return found

    def _carry_out(self, steps: Sequence[Step], stale: list[WaitingPod], server_now: float | None) -> None:
        writes = [Write(ask.pod, None) for ask in stale]
        until = time.monotonic() + self._ttl_s
        taken: set[str] = set()
        with self._source.locked as cache:
            for step in steps:
                for uid in step.withdraw:
                    if (place := cache.kept(uid)) is not None:
                        taken.add(place.node)
                    cache.give_up(uid)
                for given in step.nominate:
                    cache.plan(given.pod, given.node, until)
        if server_now is not None:
            end = server_now + self._ttl_s
            writes += [
                Write(given.pod, PlannedNode(given.node, end)) for step in steps for given in step.nominate
            ]
        self._writer.put(writes)
        if taken:
            # Until filter knows, it gives pods of lower priority the places that they had.
            self._source.locked.publish(taken)
        if any(step.nominate for step in steps):
            self._source.publish_soon()

    def _give_up(self) -> None:
        """Another extender is active: what is written stays until its time is over."""
        self._writer.clear()
        with self._lock:
            self._planner.forget()
            self._seen = None
            self._extender.nominations.plan({})
            if self.gangs is not None:
                self.gangs.forget()
        with self._source.locked as cache:
            for place in cache.all_kept():
                if not place.written:
                    cache.unplan(place.pod.uid)


@dataclass(frozen=True, slots=True)
class _StepInput:
    """What a step looks at: the waiting pods alone in their order, those of gangs included in `every`, and
    the places that are kept, by uid, `members` for those of gangs. `assumed` has the nodes of bound
    pods that the watch is yet to show, `binding` those of pods whose Binding is in flight. `changed` are the
    nodes that have changed since the snapshot of this `generation`."""

    asks: list[WaitingPod]
    every: list[WaitingPod]
    kept: Mapping[str, KeptPlace]
    members: Mapping[str, KeptPlace]
    assumed: Mapping[str, str]
    binding: Mapping[str, str]
    freed: int
    clock: ServerClock | None
    generation: int
    changed: Mapping[str, NodeInfo]

    @property
    def by_uid(self) -> Mapping[str, WaitingPod]:
        """All waiting pods."""
        return {ask.uid: ask for ask in self.every}

    def server_time(self, now: float) -> float | None:
        """The API server's clock now; None if it is not known."""
        clock = self.clock
        return None if clock is None else clock.server_time + (now - clock.received_at)
