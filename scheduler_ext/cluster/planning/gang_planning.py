"""Gangs in the steps of the planner: which there are, what a step decides about them, and its execution.

pods of the watch ──► gangs ──► GangTurns ──► places in the cache, nominations ──► gates"""

import logging
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Protocol

from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.cluster.client.retry import Backoff, Retry
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.planning.gang_assembly import Assembled, Waiting, assemble
from scheduler_ext.cluster.planning.gang_calls import GangCalls
from scheduler_ext.cluster.planning.gang_entries import GangEntries
from scheduler_ext.cluster.planning.gang_events import GangEvents
from scheduler_ext.cluster.planning.gang_events import Write as WriteEvent
from scheduler_ext.cluster.planning.gang_execution import GangExecution
from scheduler_ext.cluster.planning.gang_pods import GangPods
from scheduler_ext.cluster.planning.gang_scene import running_pods, topology_of
from scheduler_ext.cluster.planning.group_sizes import GroupSizes
from scheduler_ext.cluster.planning.nomination_writer import Write
from scheduler_ext.cluster.planning.own_writes import OwnWrites
from scheduler_ext.core.cache.kept_places import KeptPlace
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import NodeInfo, PlannedPlace
from scheduler_ext.core.planning.backfilled_cluster import BackfilledCluster
from scheduler_ext.core.planning.gang import Gang, GangWish, InvalidGang, MemberState, OnDeadline
from scheduler_ext.core.planning.gang_deadline import DeadlinePolicy
from scheduler_ext.core.planning.gang_decisions import Decisions, GivenPlace
from scheduler_ext.core.planning.gang_reservation import Backfill, Reservation
from scheduler_ext.core.planning.gang_step import GangStep, Policy, Scene
from scheduler_ext.core.planning.gang_turns import GangTurns
from scheduler_ext.core.planning.plan import Entry, State
from scheduler_ext.core.planning.planned_cluster import PlannedCluster
from scheduler_ext.core.planning.planner import Planner, Step
from scheduler_ext.core.planning.victim_proposals import node_proposals
from scheduler_ext.core.planning.waiting_pod import WaitingPod
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.gang_pod import GangPod
from scheduler_ext.wire.gangs import ONLY_NODE, START_BY, gang_wish
from scheduler_ext.wire.times import time_text

log = logging.getLogger(__name__)

# Between two steps for gangs; and so many times the length of the last one.
_EVERY_S, _REST = 0.1, 3.0
# Without any change.
_LOOK_EVERY_S = 1.0
# A place that is kept without a nomination, beyond the next step.
_RESERVED_S = 10.0
# A nomination that the watch does not show by then is written again.
_WRITTEN_S = 2.0
_LIFTS_AT_ONCE = 4
# The pods of a gang are created within this time, usually.
_SOON_S = 5.0


class Source(Protocol):
    """The cluster as a running extender knows it."""

    locked: LockedCache
    gang_pods: GangPods | None

    @property
    def latest_facts(self) -> Mapping[str, NodeFacts]: ...

    def budgets(self) -> Sequence[Budget]: ...

    def active(self) -> bool: ...


@dataclass(slots=True)
class _Asked:
    """A nomination that was handed to the writer."""

    node: str
    deadline: float | None
    at: float


class GangPlanning:
    """For the thread of the planner; `entries` may be read from any."""

    def __init__(
        self,
        transport: Transport,
        source: Source,
        pods: GangPods,
        config: Configuration,
        write_event: WriteEvent,
    ) -> None:
        self._source = source
        self._pods = pods
        self._names = frozenset(config.scheduler_names)
        self._sizing = config.sizing()
        gangs = config.nominate.gangs
        self._ttl_s = config.duration_s("nominate.ttl")
        deadlines = DeadlinePolicy(
            config.duration_s("nominate.gangs.deadline"), OnDeadline(gangs.on_deadline)
        )
        self._policy = Policy(deadlines, gangs.preempts, self._ttl_s)
        self._sizes = GroupSizes(transport)
        self._events = GangEvents(write_event)
        self._execution = GangExecution(GangCalls(transport), self._events, source.active)
        self._pool = ThreadPoolExecutor(_LIFTS_AT_ONCE, thread_name_prefix="gates")
        self._writes = OwnWrites()
        self._retry = Retry(transport.server, Backoff(), probes=False)
        self._reservations: Sequence[Reservation[WaitingPod]] = ()
        self._found: Assembled[WaitingPod] | None = None
        self._asked: dict[str, _Asked] = {}
        # The members whose places are kept without a nomination.
        self._reserved: frozenset[str] = frozenset()
        self._not_before = 0.0
        self._looked_at = 0.0
        self._changed = True
        # Differs once other room is kept for gangs.
        self.version = 0
        # The API server's clock, less that of this machine.
        self._ahead_s = 0.0
        self.entries = GangEntries()

    def stop(self) -> None:
        """Lift no more gates."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def changed(self) -> None:
        """Something changed that gangs may depend on."""
        self._changed = True

    def forget(self) -> None:
        """Another extender is active."""
        self._reservations, self._found, self._asked = (), None, {}
        self._reserved = frozenset()

    def is_member(self, uid: str) -> bool:
        """Whether a pod is planned with a gang, and not alone."""
        if self._pods.get(uid) is None:
            return False
        return self._found is None or not any(pod.uid == uid for pod in self._found.alone)

    def is_due(self, now: float) -> bool:
        """Whether a step for gangs is due."""
        if self._retry.left_s() or now < self._not_before:
            return False
        if not (self._pods.any() or self._reservations or self._reserved):
            return False
        return self._changed or now >= self._looked_at + _LOOK_EVERY_S

    def alone(self, asks: Iterable[WaitingPod]) -> list[WaitingPod]:
        """The waiting pods of no gang. Of two equal pods, the one that ends earlier may fit beside a
        reservation, so they count as different."""
        found = []
        for ask in asks:
            if self.is_member(ask.uid):
                continue
            length = self._pods.duration_s(ask.uid)
            found.append(ask if length is None else replace(ask, kind=(ask.kind, length)))
        return found

    def failed(self, uid: str) -> None:
        """The nomination of a member was not written, or its place does not do."""
        self._asked.pop(uid, None)
        self._changed = True

    def beside(self, cluster: PlannedCluster, snapshot: Snapshot) -> PlannedCluster | BackfilledCluster:
        """The cluster as pods alone may use it between two steps for gangs."""
        if not self._reservations:
            return cluster
        nodes = {node for each in self._reservations for node in each.nodes if node in snapshot.nodes}
        running = self._running([snapshot.nodes[node].info for node in nodes])
        backfill = Backfill(cluster, running, self._wall(), self._policy.starting_s)
        backfill.reservations.extend(self._reservations)
        return BackfilledCluster(cluster, backfill, self._pods.duration_s)

    # A step ---------------------------------------------------------------------------------------------

    def step(
        self,
        now: float,
        asks: Sequence[WaitingPod],
        kept: Mapping[str, KeptPlace],
        version: Hashable,
        planner: Planner,
        cluster: PlannedCluster,
        snapshot: Snapshot,
        assumed: Mapping[str, str],
        server_now: float | None,
    ) -> tuple[list[Step], Decisions[WaitingPod]]:
        """Decide about gangs, and about the pods before them. `asks` are all waiting pods in their order,
        `kept` the kept places of members, `assumed` the nodes of pods that are being bound."""
        began = time.monotonic()
        if server_now is not None:
            self._ahead_s = server_now - time.time()
        self._changed = False
        self._looked_at = now
        found = self._found = self._assemble(asks, kept, assumed)
        infos = {name: node.info for name, node in snapshot.nodes.items()}
        gang_of = {member.uid: gang.key for gang in found.gangs for member in gang.members}
        running = [
            replace(each, leaving=True) if self._writes.is_gone(each.uid) else each
            for each in running_pods(infos.values(), self._pods.duration_s, gang_of, self._wall())
        ]
        topology = topology_of((gang.wish for gang in found.gangs), infos, self._source.latest_facts)
        budgets = self._source.budgets()

        def proposals(ask: WaitingPod, some: Any, left: Any) -> Any:
            return node_proposals(ask.pod, some, left, cluster.info, self._sizing)

        scene = Scene(cluster, running, topology, budgets, proposals)
        planning = GangStep(self._wall(), scene, self._policy, self._reservations)
        turns = GangTurns(planning, planner, self.alone(asks), cluster, self._pods.duration_s, now, version)
        decisions = turns.take(found.gangs)
        if {each.key for each in self._reservations} != {each.key for each in decisions.reservations}:
            self.version += 1
        self._reservations = decisions.reservations
        self.entries.take(decisions.verdicts, found, time.time())
        took = time.monotonic() - began
        self._not_before = time.monotonic() + max(_EVERY_S, _REST * took)
        return turns.steps, decisions

    def _wall(self) -> float:
        """The time by the API server's clock."""
        return time.time() + self._ahead_s

    def _running(self, infos: Iterable[NodeInfo]) -> Any:
        found = self._found
        gang_of = {member.uid: gang.key for gang in (found.gangs if found else ()) for member in gang.members}
        return running_pods(infos, self._pods.duration_s, gang_of, self._wall())

    def _assemble(
        self, asks: Sequence[WaitingPod], kept: Mapping[str, KeptPlace], assumed: Mapping[str, str]
    ) -> Assembled[WaitingPod]:
        self._sizes.look()
        problems = {
            ask.uid: ask.invalid or f"it asks {', '.join(ask.not_modelled)}, which the planner does not know"
            for ask in asks
            if ask.invalid is not None or ask.not_modelled
        }
        waiting = Waiting({ask.uid: ask for ask in asks if ask.uid not in problems}, problems, assumed)
        planned = {
            ask.uid: ask.planned.node for ask in asks if ask.planned is not None and not ask.is_foreign
        }
        pods = []
        for pod in self._writes.over(self._pods.all()):
            if pod.scheduler_name in self._names:
                place = kept.get(pod.uid)
                node = planned.get(pod.uid)
                if place is not None and not place.pod.expected:
                    node = place.node
                pods.append(replace(pod, nominated=node))

        def wish_of(pod: GangPod) -> GangWish | InvalidGang | None:
            return gang_wish(pod.named, self._sizes.of(pod.named))

        found = assemble(pods, wish_of, waiting, self._pods.duration_s)
        if self._sizes.unread:
            self._changed = True
        return found

    # Its execution --------------------------------------------------------------------------------------

    def carry_out(
        self, decisions: Decisions[WaitingPod], snapshot: Snapshot, server_now: float | None
    ) -> tuple[list[Write], set[str]]:
        """Do what was decided. Returns the nominations to write, and the nodes to publish."""
        found = self._found
        assert found is not None
        now = time.monotonic()
        gangs = {member.uid: gang for gang in found.gangs for member in gang.members}
        writes: list[Write] = [Write(found.pods[uid], None) for uid in decisions.settle]
        for uid in decisions.settle:
            self._writes.placed(uid, None, None)
        try:
            self._evict(decisions, found, snapshot)
            nodes = self._keep(decisions, gangs, now)
            writes += self._withdrawn(decisions, gangs, found)
            if server_now is not None:
                writes += self._nominated(decisions, gangs, found, server_now, now)
                self._lift(decisions, gangs, found)
            self._retry.reset()
        except ClusterError as error:
            log.warning("gangs: %s; trying again", error)
            self._retry.failed(error)
            nodes = set()
        self._tell(found)
        return writes, nodes

    def _evict(
        self, decisions: Decisions[WaitingPod], found: Assembled[WaitingPod], snapshot: Snapshot
    ) -> None:
        if not decisions.evict:
            return
        on_nodes = {pod.uid: pod for node in snapshot.nodes.values() for pod in node.info.pods}
        for uid in self._execution.evict(decisions.evict, {**on_nodes, **found.pods}):
            self._writes.gone(uid)
            self._changed = True

    def _keep(
        self, decisions: Decisions[WaitingPod], gangs: Mapping[str, Gang[WaitingPod]], now: float
    ) -> set[str]:
        """Keep the places of members, with and without nominations; returns the nodes that changed."""
        given = {each.uid: each for each in decisions.nominate}
        asks = {member.uid: member.ask for gang in gangs.values() for member in gang.joining}
        reserved = {
            uid: node
            for each in decisions.reservations
            for uid, node in each.places.items()
            if uid not in given and uid in asks
        }
        nodes = {each.node for each in decisions.nominate} | set(reserved.values())
        with self._source.locked as cache:
            over = [cache.kept(uid) for uid in self._reserved - reserved.keys() - given.keys()]
            nodes |= {place.node for place in over if place is not None}
            for uid in (self._reserved | set(decisions.withdraw)) - reserved.keys() - given.keys():
                cache.unplan(uid)
            for uid, node in reserved.items():
                cache.plan(replace(asks[uid].pod, expected=True), node, now + _RESERVED_S)
            for each in decisions.nominate:
                until = now + self._ttl_s
                if each.deadline is not None:
                    until = now + max(self._ttl_s, each.deadline - self._wall())
                cache.plan(asks[each.uid].pod, each.node, until)
        self._reserved = frozenset(reserved)
        return nodes

    def _withdrawn(
        self,
        decisions: Decisions[WaitingPod],
        gangs: Mapping[str, Gang[WaitingPod]],
        found: Assembled[WaitingPod],
    ) -> list[Write]:
        writes = []
        for uid in decisions.withdraw:
            pod = found.pods[uid]
            self._asked.pop(uid, None)
            if pod.state is MemberState.BOUND:
                continue
            self._writes.placed(uid, None, pod.deadline)
            writes.append(Write(pod, None, _notes(pod.deadline, _only("", gangs[uid]))))
        return writes

    def _nominated(
        self,
        decisions: Decisions[WaitingPod],
        gangs: Mapping[str, Gang[WaitingPod]],
        found: Assembled[WaitingPod],
        server_now: float,
        now: float,
    ) -> list[Write]:
        writes = []
        for each in decisions.nominate:
            pod, gang = self._pods.get(each.uid), gangs[each.uid]
            if pod is None or (self._is_written(each, pod, gang) or self._is_asked(each, now)):
                continue
            end = server_now + self._ttl_s if each.deadline is None else each.deadline
            notes = _notes(each.deadline, _only(each.node, gang))
            writes.append(Write(found.pods[each.uid], PlannedPlace(each.node, end), notes))
            self._asked[each.uid] = _Asked(each.node, each.deadline, now)
        return writes

    def _is_written(self, given: GivenPlace, pod: GangPod, gang: Gang[WaitingPod]) -> bool:
        """Whether a pod shows its nomination, as far as the watch knows. The deadline of a gang that has not
        begun may pass in part."""
        if pod.nominated != given.node:
            return False
        if given.deadline is None:
            return True
        if pod.deadline is None:
            return False
        slack_s = 1.0 if gang.has_begun else self._policy.deadlines.seconds(gang) / 4
        return abs(given.deadline - pod.deadline) < slack_s

    def _is_asked(self, given: GivenPlace, now: float) -> bool:
        """Whether the nomination is on its way."""
        asked = self._asked.get(given.uid)
        return asked is not None and asked.node == given.node and now < asked.at + _WRITTEN_S

    def _lift(
        self,
        decisions: Decisions[WaitingPod],
        gangs: Mapping[str, Gang[WaitingPod]],
        found: Assembled[WaitingPod],
    ) -> None:
        """Remove the gates of gangs whose nominations are all written, and those of pods that need none."""
        given = {each.uid: each for each in decisions.nominate}
        begun = {gang.key for gang in found.gangs if gang.has_begun}
        for uids in decisions.lift:
            gang = gangs[uids[0]]
            joining = [given[member.uid] for member in gang.joining if member.uid in given]
            if all(
                (pod := self._pods.get(each.uid)) is not None and self._is_written(each, pod, gang)
                for each in joining
            ):
                begun.add(gang.key)
                pods = [found.pods[uid] for uid in uids]
                self._execution.lift(gang, pods, self._pool)
                for uid in uids:
                    self._writes.lifted(uid)
        companions = [
            pod for key, some in found.companions.items() if key in begun for pod in some if pod.is_gated
        ]
        free = [*companions, *found.alone]
        if free:
            self._execution.lift_alone(free, self._pool)
            for pod in free:
                self._writes.lifted(pod.uid)

    def _tell(self, found: Assembled[WaitingPod]) -> None:
        for pod, message in found.invalid:
            self._events.invalid(pod, message)
        for gang, state, reason in self.entries.gangs():
            if state in (State.PLANNED, State.GIVEN_UP):
                continue
            if state is State.ASSEMBLING and self._wall() < gang.created_at + _SOON_S:
                continue
            waiting = [found.pods[member.uid] for member in gang.members if member.is_unbound]
            self._events.waiting(gang.key, waiting, reason, invalid=state is State.INVALID)

    def entry(self, ask: WaitingPod, at: float) -> Entry:
        """How a member stands, for those who read the plan."""
        return self.entries.entry(ask, at)


def _only(node: str, gang: Gang[WaitingPod]) -> str | None:
    """The node that alone takes the members of a gang that has to be in one domain."""
    return node if gang.wish.required_topology is not None else None


def _notes(deadline: float | None, only: str | None) -> dict[str, str]:
    notes = {} if deadline is None else {START_BY: time_text(deadline)}
    return notes if only is None else notes | {ONLY_NODE: only}
