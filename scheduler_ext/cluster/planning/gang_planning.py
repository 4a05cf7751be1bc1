"""Plans gangs on the live cluster, and carries the plan out: a thread that works while this extender is
active."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http import HTTPStatus
from threading import Event
from typing import Any, Protocol

from scheduler_ext.background import Background
from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.cluster.api_paths import pod_path
from scheduler_ext.cluster.client.retry import Backoff, Retry
from scheduler_ext.cluster.client.transport import APPLY, RefusedError, Transport
from scheduler_ext.cluster.planning.gang_assembly import Assembled, Waiting, assemble
from scheduler_ext.cluster.planning.gang_calls import GangCalls
from scheduler_ext.cluster.planning.gang_events import GangEvents, Write
from scheduler_ext.cluster.planning.gang_execution import GangExecution
from scheduler_ext.cluster.planning.gang_pods import GangPods
from scheduler_ext.cluster.planning.gang_scene import running_pods, topology_of
from scheduler_ext.cluster.planning.group_sizes import GroupSizes
from scheduler_ext.cluster.planning.own_writes import OwnWrites
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import NodeInfo, PendingPod
from scheduler_ext.core.planning.gang import GangWish, InvalidGang, MemberState, OnDeadline
from scheduler_ext.core.planning.gang_deadline import DeadlinePolicy
from scheduler_ext.core.planning.gang_decisions import Decisions, GivenPlace, Verdict
from scheduler_ext.core.planning.gang_reservation import Reservation
from scheduler_ext.core.planning.gang_step import Policy, Scene, step
from scheduler_ext.core.planning.gang_words import gpu_amounts, sentence
from scheduler_ext.core.planning.plan import State
from scheduler_ext.core.planning.trial_cluster import PodAsking, TrialCluster
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.gang_pod import GangPod
from scheduler_ext.wire.gangs import ONLY_NODE, START_BY, gang_wish
from scheduler_ext.wire.pod import not_modelled, pod_needs
from scheduler_ext.wire.redacted import read_redacted
from scheduler_ext.wire.times import time_text

log = logging.getLogger(__name__)

_EVERY_S = 0.2
_TICK_S = 1.0
_CALL_S = 5.0
_MANAGER = "gpu-scheduler-planner"
_GATES = "scheduling gates"


class Cluster(Protocol):
    locked: LockedCache
    gang_pods: GangPods | None

    @property
    def snapshot(self) -> Snapshot | None: ...

    @property
    def latest_facts(self) -> Mapping[str, NodeFacts]: ...

    def active(self) -> bool: ...

    def pending(self) -> Sequence[PendingPod]: ...

    def budgets(self) -> Sequence[Budget]: ...


class GangPlanner(Background):
    def __init__(
        self, transport: Transport, cluster: Cluster, config: Configuration, write: Write
    ) -> None:
        super().__init__("gangs")
        self._transport, self._cluster = transport, cluster
        self._names = frozenset(config.scheduler_names)
        self._sizing = config.sizing()
        gangs = config.nominate.gangs
        self._policy = Policy(
            DeadlinePolicy(config.duration_s("nominate.gangs.deadline"), OnDeadline(gangs.on_deadline)),
            gangs.preempts,
        )
        self._sizes = GroupSizes(transport)
        self._events = GangEvents(write)
        self.execution = GangExecution(GangCalls(transport), self._events, cluster.active)
        self._writes = OwnWrites()
        self._retry = Retry(transport.server, Backoff(), probes=False)
        self._wake = Event()
        self._reservations: Sequence[Reservation[PodAsking]] = ()
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="gang-nominations")
        self.verdicts: Sequence[Verdict[PodAsking]] = ()

    def changed(self) -> None:
        self._wake.set()

    def run(self) -> None:
        while not self.stopped.is_set():
            self._wake.wait(_TICK_S)
            self._wake.clear()
            if self.stopped.is_set() or not self._cluster.active() or self._retry.left_s():
                self.stopped.wait(_EVERY_S)
                continue
            try:
                self.look()
                self._retry.reset()
            except ClusterError as error:
                log.warning("gangs: %s; trying again", error)
                self._retry.failed(error)
            except Exception:
                log.exception("gangs are not planned: unexpected error; trying again")
                self.stopped.wait(1.0)
            self.stopped.wait(_EVERY_S)

    def stop(self, wait_s: float = 0.0) -> None:
        self.stopped.set()
        self._wake.set()
        super().stop(wait_s)
        self._pool.shutdown(wait=False)

    def look(self) -> None:
        snapshot, pods = self._cluster.snapshot, self._cluster.gang_pods
        if snapshot is None or pods is None:
            return
        mine = [pod for pod in self._writes.over(pods.all()) if pod.scheduler_name in self._names]
        if not mine:
            self._reservations, self.verdicts = (), ()
            return
        found = self._assembled(mine, pods)
        decisions = self._decide(found, snapshot, pods)
        self._carry_out(decisions, found, snapshot)

    def _assembled(self, mine: Iterable[GangPod], pods: GangPods) -> Assembled[PodAsking]:
        self._sizes.look()

        def wish_of(pod: GangPod) -> GangWish | InvalidGang | None:
            return gang_wish(pod.named, self._sizes.of(pod.named))

        return assemble(mine, wish_of, self._waiting({pod.uid for pod in mine}), pods.duration_s)

    def _waiting(self, uids: set[str]) -> Waiting[PodAsking]:
        asks: dict[str, PodAsking] = {}
        problems: dict[str, str] = {}
        for pending in self._cluster.pending():
            uid = pending.pod.uid
            if uid not in uids:
                continue
            if pending.invalid is not None:
                problems[uid] = pending.invalid
                continue
            pod = read_redacted(pending.manifest)
            beyond = [each for each in not_modelled(pod) if each != _GATES]
            if beyond:
                problems[uid] = f"the planner does not model {', '.join(beyond)}"
                continue
            try:
                needs = pod_needs(pod)
            except QuantityError as error:
                problems[uid] = str(error)
                continue
            request = replace(pending.pod.request, priority=0)
            asks[uid] = PodAsking(pending.pod, needs, (request, repr(needs)))
        with self._cluster.locked as cache:
            assumed = {uid: node for uid in asks if (node := cache.node_of(uid)) is not None}
        return Waiting(asks, problems, assumed)

    def _decide(
        self, found: Assembled[PodAsking], snapshot: Snapshot, pods: GangPods
    ) -> Decisions[PodAsking]:
        infos = {name: node.info for name, node in snapshot.nodes.items()}
        facts = self._cluster.latest_facts
        replaced = {}
        for name, info in infos.items():
            if info.nominated:
                others = tuple(pod for pod in info.nominated if pod.uid not in found.pods)
                replaced[name] = replace(info, nominated=(), pods=(*info.pods, *others))
        cluster = TrialCluster(snapshot, replaced, facts, self._sizing)
        gang_of = {member.uid: gang.key for gang in found.gangs for member in gang.members}
        running = [
            replace(each, leaving=True) if self._writes.is_gone(each.uid) else each
            for each in running_pods(infos.values(), pods.duration_s, gang_of)
        ]
        topology = topology_of((gang.wish for gang in found.gangs), infos, facts)
        scene = Scene(cluster, running, topology, self._cluster.budgets())
        decisions = step(time.time(), found.gangs, (), scene, self._policy, self._reservations)
        self._reservations, self.verdicts = decisions.reservations, decisions.verdicts
        return decisions

    def _carry_out(
        self, decisions: Decisions[PodAsking], found: Assembled[PodAsking], snapshot: Snapshot
    ) -> None:
        pods = found.pods
        for uid in decisions.settle:
            self._write(pods[uid], None, None, None)
        if decisions.evict:
            on_nodes = {pod.uid: pod for node in snapshot.nodes.values() for pod in node.info.pods}
            for uid in self.execution.evict(decisions.evict, {**on_nodes, **pods}):
                self._writes.gone(uid)
        wishes = {member.uid: gang.wish for gang in found.gangs for member in gang.members}
        for uid in decisions.withdraw:
            pod = pods[uid]
            if pod.state is not MemberState.BOUND:
                only = "" if wishes[uid].required_topology is not None else None
                self._write(pod, None, pod.deadline, only)
        changed = [each for each in decisions.nominate if self._is_new(each, pods[each.uid])]

        def write(each: GivenPlace) -> None:
            only = each.node if wishes[each.uid].required_topology is not None else None
            self._write(pods[each.uid], each.node, each.deadline, only)

        failed: set[str] = set()
        for each, future in [(each, self._pool.submit(write, each)) for each in changed]:
            try:
                future.result()
            except RefusedError as error:
                failed.add(each.uid)
                log.info("pod %s is not nominated: %s", pods[each.uid].name, error)
        by_member = {member.uid: gang for gang in found.gangs for member in gang.members}
        begun = set()
        for uids in decisions.lift:
            gang = by_member[uids[0]]
            if any(member.uid in failed for member in gang.members):
                continue
            begun.add(gang.key)
            self.execution.lift(gang, [pods[uid] for uid in uids])
            for uid in uids:
                self._writes.lifted(uid)
        begun |= {gang.key for gang in found.gangs if gang.has_begun}
        companions = [
            pod for key, some in found.companions.items() if key in begun for pod in some if pod.is_gated
        ]
        free = [*companions, *found.alone]
        if free:
            self.execution.lift_alone(free)
            for pod in free:
                self._writes.lifted(pod.uid)
        self._tell(decisions, found)

    def _tell(self, decisions: Decisions[PodAsking], found: Assembled[PodAsking]) -> None:
        for pod, message in found.invalid:
            self._events.invalid(pod, message)
        for verdict in decisions.verdicts:
            gang = verdict.gang
            if gang is None or verdict.state in (State.PLANNED, State.GIVEN_UP):
                continue
            waiting = [found.pods[member.uid] for member in gang.members if member.is_unbound]
            text = sentence(verdict, lambda ask: gpu_amounts(ask.request))
            self._events.waiting(gang.key, waiting, text, invalid=verdict.state is State.INVALID)

    def _is_new(self, given: GivenPlace, pod: GangPod) -> bool:
        return pod.nominated != given.node or (
            given.deadline is not None
            and (pod.deadline is None or abs(pod.deadline - given.deadline) >= 1.0)
        )

    def _write(self, pod: GangPod, node: str | None, deadline: float | None, only: str | None) -> None:
        notes: dict[str, str] = {}
        if deadline is not None:
            notes[START_BY] = time_text(deadline)
        if only is not None:
            notes[ONLY_NODE] = only
        metadata: dict[str, Any] = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata | {"annotations": notes},
            "status": {"nominatedNodeName": node} if node is not None else {},
        }
        path = f"{pod_path(pod.namespace, pod.name)}/status"
        try:
            self._transport.send("PATCH", path, body, APPLY, {"fieldManager": _MANAGER}, timeout_s=_CALL_S)
        except RefusedError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return
            raise
        self._writes.placed(pod.uid, node, deadline)
