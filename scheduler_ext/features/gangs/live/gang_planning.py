"""Gangs in the steps of the planner: which there are, what a step decides about them, and its execution.

pods of the watch ──► gangs ──► GangTurns ──► places in the cache, nominations ──► gates"""

import logging
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.events.event_recorder import WriteEvent
from scheduler_ext.core.cache.kept_places import KeptPlace
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.core.request.gang_request import GangKey, GangRequest, InvalidGang, OnDeadline
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.features.gangs.live.gang_assembly import Assembled, WaitingMembers, assemble
from scheduler_ext.features.gangs.live.gang_entries import GangEntries
from scheduler_ext.features.gangs.live.gang_events import GangEvents
from scheduler_ext.features.gangs.live.gang_pods import GangPods
from scheduler_ext.features.gangs.live.gang_scene import running_pods, topology_of
from scheduler_ext.features.gangs.live.gang_writes import GangWrites
from scheduler_ext.features.gangs.live.group_sizes import GroupSizes
from scheduler_ext.features.gangs.live.nomination_writer import Write
from scheduler_ext.features.gangs.planning.backfilled_cluster import BackfilledCluster
from scheduler_ext.features.gangs.planning.gang_bounds import Keeping, KeepingBounds
from scheduler_ext.features.gangs.planning.gang_deadline import DeadlinePolicy
from scheduler_ext.features.gangs.planning.gang_decisions import Decisions, Verdict
from scheduler_ext.features.gangs.planning.gang_failures import GangFailure
from scheduler_ext.features.gangs.planning.gang_reservation import Backfill, GangReservation
from scheduler_ext.features.gangs.planning.gang_step import GangPolicy, GangStep, Scene
from scheduler_ext.features.gangs.planning.gang_turns import GangTurns, before
from scheduler_ext.features.gangs.planning.given_places import Step
from scheduler_ext.features.gangs.planning.plan import Entry, State
from scheduler_ext.features.gangs.planning.planned_cluster import PlannedCluster
from scheduler_ext.features.gangs.planning.planner import Planner
from scheduler_ext.features.gangs.planning.victim_proposals import NodeProposals
from scheduler_ext.features.gangs.planning.waiting_pod import WaitingPod
from scheduler_ext.features.gangs.settings import NominateSection
from scheduler_ext.features.gangs.wire.gang_pod import GangPod, names_in
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.gangs import read_gang_request

log = logging.getLogger(__name__)

# Between two steps for gangs, and between two that search for places to wait for: at least so long; up to so
# long, so many times the length of the last one.
_EVERY_S, _LONGEST_REST_S, _REST = 0.1, 2.0, 3.0
# Without any change.
_LOOK_EVERY_S = 1.0
# The pods of a gang are created within this time, usually.
_SOON_S = 5.0
# After a second refusal a member is not nominated for this time. A nomination by another component, or the
# binding of the pod, makes a first one, and then the watch shows it.
_CONFLICT_S = 60.0


class GangCluster(Protocol):
    """The cluster as a running extender knows it."""

    locked: LockedCache

    @property
    def latest_facts(self) -> Mapping[str, NodeFacts]: ...

    def budgets(self) -> Sequence[Budget]: ...

    def active(self) -> bool: ...


def _rest_s(took: float) -> float:
    return min(_LONGEST_REST_S, max(_EVERY_S, _REST * took))


class GangPlanning:
    """For the thread of the planner; `entries` may be read from any."""

    def __init__(
        self,
        transport: Transport,
        source: GangCluster,
        pods: GangPods,
        config: Configuration,
        write_event: WriteEvent,
    ) -> None:
        self._source = source
        self._pods = pods
        self._names = frozenset(config.scheduler_names)
        self._sizing = config.sizing()
        nominate = config.of(NominateSection)
        gangs = nominate.gangs
        self._ttl_s = nominate.duration_s("ttl")
        deadlines = DeadlinePolicy(gangs.duration_s("deadline"), OnDeadline(gangs.on_deadline))
        bounds = KeepingBounds(gangs.duration_s("keep_for"), gangs.keep_percent / 100)
        self._policy = GangPolicy(deadlines, bounds, gangs.preempts, self._ttl_s)
        self._sizes = GroupSizes(transport)
        self._events = GangEvents(write_event)
        self.writes = GangWrites(transport, source, pods, self._events, self._policy)
        self._reservations: Sequence[GangReservation[WaitingPod]] = ()
        self._keeping: Mapping[GangKey, Keeping] = {}
        self._failures: Mapping[GangKey, GangFailure] = {}
        # The gangs of which it is known what a former planner remembered.
        self._read: frozenset[GangKey] = frozenset()
        # The turn of the first gang that could not be tried in the last step.
        self._in_line: tuple[int, float] | None = None
        self._found: Assembled[WaitingPod] | None = None
        self._budgets: Sequence[Budget] = ()
        # The pods that name a group, and turned out to belong to no gang.
        self._alone: frozenset[str] = frozenset()
        self._conflicts: dict[str, _Conflict] = {}
        self._not_before = 0.0
        # What the last search found, the lengths of the last steps with and without one, when there may be
        # another one, and if a gang waits for that.
        self._searched: Mapping[GangKey, Verdict[WaitingPod]] = {}
        self._search_s, self._other_s, self._search_at = 0.0, 0.0, 0.0
        self._unsearched = False
        self._next_s = 0.0
        self._looked_at = 0.0
        self._changed = True
        # Differs once other room is kept for gangs.
        self.version = 0
        # The API server's clock, less that of this machine.
        self._ahead_s = 0.0
        self.entries = GangEntries()

    def stop(self) -> None:
        """Lift no more gates."""
        self.writes.stop()

    def changed(self) -> None:
        """Something changed that gangs may depend on."""
        self._changed = True

    def refused(self, uid: str, why: str, now: float) -> bool:
        """The API server has refused the nomination of a member, because another field manager owns a part of
        it, or by a policy; whether not for the first time."""
        last = self._conflicts.get(uid)
        again = last is not None and now < last.until
        self._conflicts[uid] = _Conflict(why, again, now + _CONFLICT_S)
        return again

    def forget(self) -> None:
        """Another extender is active."""
        self._conflicts.clear()
        self._reservations, self._in_line, self._found, self._alone = (), None, None, frozenset()
        self._keeping, self._failures, self._read, self._searched = {}, {}, frozenset(), {}
        self.writes.forget()
        self.entries.forget()

    def is_member(self, uid: str) -> bool:
        """Whether a pod is planned with a gang, and not alone."""
        return self._pods.get(uid) is not None and uid not in self._alone

    def is_due(self, now: float) -> bool:
        """Whether a step for gangs is due."""
        if self.writes.pause_s() or now < self._not_before:
            return False
        kept = self._reservations or self.writes.reserved or self._in_line is not None
        if not (kept or self._pods.any()):
            return False
        may_search = self._unsearched and now >= self._search_at
        return may_search or self._changed or now >= self._looked_at + _LOOK_EVERY_S

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

    def in_turn(self, asks: Sequence[WaitingPod]) -> Sequence[WaitingPod]:
        """The pods alone that may be tried between two steps for gangs: none that comes after a gang that is
        to be tried itself."""
        return asks if self._in_line is None else before(asks, self._in_line)

    def ahead_of(self, ask: WaitingPod) -> list[GangKey]:
        """The gangs for which places are kept from a pod."""
        turn = ask.rank[:2]
        return [each.key for each in self._reservations if each.turn is None or each.turn <= turn]

    def beside(self, cluster: PlannedCluster, snapshot: Snapshot) -> PlannedCluster | BackfilledCluster:
        """The cluster as pods alone may use it between two steps for gangs."""
        if not self._reservations:
            return cluster
        nodes = {node for each in self._reservations for node in each.nodes if node in snapshot.nodes}
        running = self._running([snapshot.nodes[node].info for node in nodes])
        backfill = Backfill(cluster, running, self._wall(), self._policy.starting_s)
        backfill.reservations.extend(self._reservations)
        return BackfilledCluster(cluster, backfill, self._pods.duration_s)

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
        binding: Mapping[str, str],
        server_now: float | None,
    ) -> tuple[list[Step], Decisions[WaitingPod]]:
        """Decide about gangs, and about the pods before them. `asks` are all waiting pods in their order,
        `kept` the kept places of members, `assumed` the nodes of bound pods that the watch is yet to show,
        `binding` those of pods whose Binding is in flight; these hold their room on the cluster."""
        began = time.monotonic()
        if server_now is not None:
            self._ahead_s = server_now - time.time()
        self._changed = False
        self._looked_at = now
        infos = {name: node.info for name, node in snapshot.nodes.items()}
        # One that has failed since holds its room on this cluster still.
        binding = {**{uid: name for name, info in infos.items() for uid in info.assumed}, **binding}
        found = self._found = self._assemble(asks, kept, assumed, binding)
        self._remember(found)
        self._alone = frozenset(pod.uid for pod in found.alone)
        gang_of = {member.uid: gang.key for gang in found.gangs for member in gang.members}
        running = [
            replace(each, leaving=True) if self.writes.own.is_gone(each.uid) else each
            for each in running_pods(infos.values(), self._pods.duration_s, gang_of, self._wall())
        ]
        topology = topology_of((gang.request for gang in found.gangs), infos, self._source.latest_facts)
        budgets = self._budgets = self._source.budgets()

        proposals = NodeProposals(cluster.info, self._sizing)
        scene = Scene(
            cluster,
            running,
            topology,
            budgets,
            lambda ask, some, left: proposals.of(ask.pod, some, left),
            self.writes.not_evicted(),
            self._failures,
            cluster.refusals,
        )
        # What comes first and fits starts at once. To search for what others wait for takes long.
        searches = now >= self._search_at
        planning = GangStep(
            self._wall(),
            scene,
            self._policy,
            self._reservations,
            self._keeping,
            searches=searches,
            starts_first=now < self._search_at + _LONGEST_REST_S,
        )
        turns = GangTurns(planning, planner, self.alone(asks), cluster, self._pods.duration_s, now, version)
        decisions = turns.take(found.gangs)
        if {each.key for each in self._reservations} != {each.key for each in decisions.reservations}:
            self.version += 1
        self._reservations = decisions.reservations
        self._keeping, self._failures = decisions.keeping, decisions.failures
        if planning.in_turn:
            self._in_line = decisions.in_line
            self._searched = {each.gang.key: each for each in decisions.verdicts if each.gang is not None}
        self._rest(began, searched=searches and planning.in_turn)
        self._unsearched = not planning.in_turn
        self.entries.take(self._shown(decisions.verdicts), found, time.time())
        return turns.steps, decisions

    def _rest(self, began: float, *, searched: bool) -> None:
        """Decide when the next step is due, after one that began then."""
        ended = time.monotonic()
        if searched:
            self._search_s = ended - began
            self._search_at = ended + _rest_s(self._search_s)
        else:
            self._other_s = ended - began
        self._not_before = ended + _rest_s(self._other_s)
        # The next step may search.
        self._next_s = _rest_s(self._other_s) + max(self._search_s, self._other_s)

    def _shown(self, verdicts: Sequence[Verdict[WaitingPod]]) -> list[Verdict[WaitingPod]]:
        """The verdicts of a step, with that of the last search on a gang that waits for the next one."""
        shown = []
        for each in verdicts:
            key = each.gang.key if each.gang is not None and each.state is State.IN_LINE else None
            last = self._searched.get(key) if key is not None else None
            shown.append(each if last is None else replace(last, gang=each.gang))
        return shown

    def _wall(self) -> float:
        """The time by the API server's clock."""
        return time.time() + self._ahead_s

    def _running(self, infos: Iterable[NodeInfo]) -> Any:
        found = self._found
        gang_of = {member.uid: gang.key for gang in (found.gangs if found else ()) for member in gang.members}
        return running_pods(infos, self._pods.duration_s, gang_of, self._wall())

    def _assemble(
        self,
        asks: Sequence[WaitingPod],
        kept: Mapping[str, KeptPlace],
        assumed: Mapping[str, str],
        binding: Mapping[str, str],
    ) -> Assembled[WaitingPod]:
        self._sizes.look()
        now = time.monotonic()
        self._conflicts = {uid: each for uid, each in self._conflicts.items() if now < each.until}
        problems = {ask.uid: problem for ask in asks if (problem := self._problem(ask)) is not None}
        foreign = frozenset(ask.uid for ask in asks if ask.is_foreign)
        readable = {ask.uid: ask for ask in asks if ask.uid not in problems}
        waiting = WaitingMembers(readable, problems, assumed, binding, foreign, self._refused())
        planned = {
            ask.uid: ask.planned.node
            for ask in asks
            if ask.planned is not None and ask.nominated == ask.planned.node
        }
        pods = []
        every = self.writes.own.over(self._pods.all())
        ours = [pod for pod in every if pod.scheduler_name in self._names]
        named = {name for pod in ours for name in names_in(pod)}
        for pod in every:
            if pod.scheduler_name not in self._names:
                # A launcher needs no GPU, and so no scheduler that knows them.
                if not (pod.asks_gpu or pod.is_gated) and not named.isdisjoint(names_in(pod)):
                    pods.append(pod)
            else:
                place = kept.get(pod.uid)
                node = planned.get(pod.uid)
                if place is not None and not place.pod.expected:
                    node = place.node
                pods.append(replace(pod, nominated=node))

        def gang_request_of(pod: GangPod) -> GangRequest | InvalidGang | None:
            return read_gang_request(pod.named, self._sizes.of(pod.named))

        found = assemble(pods, gang_request_of, waiting, self._pods.duration_s)
        if self._sizes.unread:
            self._changed = True
        return found

    def _remember(self, found: Assembled[WaitingPod]) -> None:
        """Go on where a former planner stopped."""
        failures, keeping = dict(self._failures), dict(self._keeping)
        for gang in found.gangs:
            if gang.key in self._read:
                continue
            for remembered in (found.pods[each.uid].remembered for each in gang.members):
                if remembered is not None and remembered.failure is not None:
                    failures.setdefault(gang.key, remembered.failure)
                if remembered is not None and remembered.keeping is not None:
                    keeping.setdefault(gang.key, remembered.keeping)
        self._failures, self._keeping = failures, keeping
        self._read = frozenset(gang.key for gang in found.gangs)

    def carry_out(self, decisions: Decisions[WaitingPod], snapshot: Snapshot) -> tuple[list[Write], set[str]]:
        """Do what the last step decided. Returns the nominations to write, and the nodes whose places
        changed."""
        assert self._found is not None
        if decisions.evict:
            self._changed = True
        wall, next_s = self._wall(), self._next_s
        written = self.writes.carry_out(decisions, self._found, snapshot, self._budgets, wall, next_s)
        self._tell(self._found)
        return written

    def _tell(self, found: Assembled[WaitingPod]) -> None:
        """Write Events about gangs that wait."""
        for pod, message in found.invalid:
            self._events.invalid(pod, message)
        for gang, state, reason in self.entries.gangs():
            soon = state is State.ASSEMBLING and self._wall() < gang.created_at + _SOON_S
            if state in (State.PLANNED, State.IN_LINE, State.GIVEN_UP) or soon:
                continue
            waiting = [found.pods[member.uid] for member in gang.members if member.is_unbound]
            self._events.waiting(gang.key, waiting, reason, invalid=state is State.INVALID)

    def entry(self, ask: WaitingPod, at: float) -> Entry:
        """How a member stands, for those who read the plan."""
        return self.entries.entry(ask, at)

    def _refused(self) -> dict[str, str]:
        """Why gates stay: a gang that cannot begin keeps no room meanwhile."""
        refused = self.writes.refused().items()
        return {uid: f"the API server refuses to remove its gate: {why}" for uid, why in refused}

    def _problem(self, ask: WaitingPod) -> str | None:
        """Why a member cannot be planned."""
        if ask.invalid is not None:
            return ask.invalid
        if unknown := ", ".join((*ask.not_modelled, *ask.unchecked)):
            return f"it asks {unknown}, which the planner does not know"
        conflict = self._conflicts.get(ask.uid)
        if conflict is None or not conflict.again or ask.is_foreign:
            return None
        return f"the API server refuses its nomination: {conflict.why}"


@dataclass(frozen=True, slots=True)
class _Conflict:
    """Why a nomination was refused, and whether it was `again`."""

    why: str
    again: bool
    until: float
