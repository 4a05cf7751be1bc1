"""A cluster whose pods, gates and nodes change, with a kube-scheduler and controllers, around the planner's
step. The planner reads everything from the pods; only its last reservations may be remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice

from scheduler_ext.core.request.gang_request import GangKey, GangRequest
from scheduler_ext.features.gangs.planning.draining import Running
from scheduler_ext.features.gangs.planning.gang import Gang, Member, MemberState, gangs_of
from scheduler_ext.features.gangs.planning.gang_bounds import Keeping
from scheduler_ext.features.gangs.planning.gang_decisions import Decisions, Single
from scheduler_ext.features.gangs.planning.gang_reservation import GangReservation
from scheduler_ext.features.gangs.planning.gang_step import GangPolicy, Scene, step
from tests.features.gangs.planning.memory_cluster import Ask, Host, MemoryCluster, running, topology

GRACE_S = 2.0


@dataclass
class Pod:
    uid: str
    ask: Ask
    priority: int
    created_at: float
    of: str | None = None
    gated: bool = False
    node: str | None = None
    nominated: str | None = None
    deadline: float | None = None
    max_duration_s: float | None = None
    runs_s: float | None = None
    started_at: float | None = None
    gone_at: float | None = None

    @property
    def state(self) -> MemberState:
        if self.node is not None:
            return MemberState.BOUND
        return MemberState.GATED if self.gated else MemberState.WAITING


@dataclass
class Workload:
    """What a controller keeps for a gang: its request, and the requests of its pods by their ordinal."""

    request: GangRequest
    asks: Sequence[Ask]
    priority: int
    whole_at: float | None = None
    lifted_at: float | None = None


class World:
    def __init__(self, hosts: dict[str, Host], policy: GangPolicy) -> None:
        self.hosts = hosts
        self.dead: dict[str, Host] = {}
        self.policy = policy
        self.now = 0.0
        self.pods: dict[str, Pod] = {}
        self.workloads: dict[str, Workload] = {}
        self.previous: Sequence[GangReservation[Ask]] = ()
        self.keeping: Mapping[GangKey, Keeping] = {}
        self._numbers = count(1)

    # What happens to the cluster.

    def name(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers):04}"

    def add_single(self, ask: Ask, priority: int, max_duration_s: float | None, runs_s: float | None) -> None:
        uid = self.name("pod")
        self.pods[uid] = Pod(uid, ask, priority, self.now, max_duration_s=max_duration_s, runs_s=runs_s)

    def add_gang(self, gang_request: GangRequest, asks: Sequence[Ask], priority: int) -> None:
        self.workloads[gang_request.key.name] = Workload(gang_request, asks, priority)

    def create_members(self, name: str, most: int) -> None:
        workload = self.workloads[name]
        there = {int(pod.uid.split("-")[1]) for pod in self.members(name)}
        absent = [i for i in range(len(workload.asks)) if i not in there]
        for i in absent[:most]:
            uid = self.name(f"{name}-{i}-")
            self.pods[uid] = Pod(uid, workload.asks[i], workload.priority, self.now, of=name, gated=True)

    def delete(self, uid: str, *, at_once: bool = False) -> None:
        """The pod terminates; one that is on no node, or whose node is gone, vanishes."""
        pod = self.pods[uid]
        if pod.node is None or at_once:
            del self.pods[uid]
        elif pod.gone_at is None:
            pod.gone_at = self.now + GRACE_S

    def kill_node(self, name: str) -> None:
        self.dead[name] = self.hosts.pop(name)
        for uid in [uid for uid, pod in self.pods.items() if pod.node == name]:
            self.delete(uid, at_once=True)

    def revive_node(self, name: str) -> None:
        self.hosts[name] = self.dead.pop(name)

    def advance(self, by_s: float) -> None:
        self.now += by_s
        for uid, pod in list(self.pods.items()):
            runs_s = pod.runs_s if pod.of is None else None
            if runs_s is not None and pod.started_at is not None and pod.started_at + runs_s <= self.now:
                self.delete(uid, at_once=True)
            elif pod.gone_at is not None and pod.gone_at <= self.now:
                del self.pods[uid]

    def schedule(self) -> None:
        """kube-scheduler's turn: each pod without a gate, most important first. A pod goes where it is
        nominated; a pod that belongs to no gang may fall back to a node with room beside everything that is
        held."""
        waiting = [pod for pod in self.pods.values() if pod.state is MemberState.WAITING]
        for pod in sorted(waiting, key=lambda pod: (-pod.priority, pod.created_at, pod.uid)):
            if pod.nominated in self.hosts and self._room(pod.nominated or "", pod) >= pod.ask.gpus:
                self._bind(pod, pod.nominated or "")
            elif pod.of is None:
                kept = Counter[str]()
                for each in self.previous:
                    for member in each.members:
                        kept[each.places[member.uid]] += member.ask.gpus
                for name, host in sorted(self.hosts.items()):
                    fits = pod.ask.model in ("", host.model)
                    if fits and self._room(name, pod) - kept[name] >= pod.ask.gpus:
                        self._bind(pod, name)
                        break
        self._note_whole()

    def _bind(self, pod: Pod, node: str) -> None:
        pod.node, pod.nominated, pod.started_at = node, None, self.now

    def _room(self, node: str, pod: Pod) -> int:
        own = pod.ask.gpus if pod.nominated == node else 0
        return self.hosts[node].gpus - self.held()[node] + own

    def _note_whole(self) -> None:
        for name, workload in self.workloads.items():
            if len(self.bound(name)) >= workload.request.size and workload.whole_at is None:
                workload.whole_at = self.now

    # What the planner sees and does.

    def plan(self, writes: int | None = None) -> Decisions[Ask]:
        """A step of the planner; only its first `writes` reach the cluster (None: all)."""
        seen = self.gangs(), self.singles(), self.scene()
        decisions = step(self.now, *seen, self.policy, self.previous, self.keeping)
        for _ in islice(self._written(decisions), writes):
            pass
        self.previous, self.keeping = decisions.reservations, decisions.keeping
        return decisions

    def _written(self, decisions: Decisions[Ask]) -> Iterator[None]:
        """Makes one write after the other."""
        for uid in decisions.settle:
            self.pods[uid].deadline = None
            yield
        for evicted in decisions.evict:
            if evicted.uid in self.pods:
                self.delete(evicted.uid)
            yield
        begun = {gang.key.name for gang in self.gangs() if gang.has_begun}
        for uid in decisions.withdraw:
            self.pods[uid].nominated = None
            if self.pods[uid].of not in begun:
                self.pods[uid].deadline = None
            yield
        for given in decisions.nominate:
            self.pods[given.uid].nominated, self.pods[given.uid].deadline = given.node, given.deadline
            yield
        for uid in chain.from_iterable(decisions.lift):
            self._lift(uid)
            yield

    def _lift(self, uid: str) -> None:
        pod = self.pods[uid]
        assert pod.nominated is not None, f"the gate of {uid} goes, and no place is kept for it"
        pod.gated = False
        workload = self.workloads[pod.of or ""]
        if workload.lifted_at is None:
            workload.lifted_at = self.now

    def scene(self) -> Scene[Ask]:
        there = self.running()
        cluster = MemoryCluster(self.hosts, there)
        return Scene(cluster, [pod for pod, _ in there], topology(self.hosts))

    def running(self) -> list[tuple[Running, int]]:
        return [self._running(pod, pod.node) for pod in self.pods.values() if pod.node is not None]

    @staticmethod
    def _running(pod: Pod, node: str) -> tuple[Running, int]:
        ends = None
        if pod.max_duration_s is not None and pod.started_at is not None:
            ends = pod.started_at + pod.max_duration_s
        return running(
            pod.uid,
            node,
            pod.ask.gpus,
            ends=ends,
            leaving=pod.gone_at is not None,
            gang=key_of(pod.of) if pod.of is not None else None,
            priority=pod.priority,
            started_at=pod.started_at,
        )

    def gangs(self) -> list[Gang[Ask]]:
        return gangs_of(
            (self.workloads[pod.of].request, self._member(pod))
            for pod in self.pods.values()
            if pod.of is not None and pod.gone_at is None
        )

    def _member(self, pod: Pod) -> Member[Ask]:
        node = pod.node or pod.nominated
        return Member(
            pod.uid, pod.ask, pod.state, pod.priority, pod.created_at, node, pod.deadline, None, pod.ask
        )

    def singles(self) -> list[Single[Ask]]:
        return [
            Single(pod.uid, pod.ask, pod.priority, pod.created_at, pod.nominated, pod.max_duration_s)
            for pod in self.pods.values()
            if pod.of is None and pod.node is None
        ]

    # What is true of the cluster.

    def used(self) -> Counter[str]:
        used = Counter[str]()
        for pod in self.pods.values():
            if pod.node is not None:
                used[pod.node] += pod.ask.gpus
        return used

    def held(self) -> Counter[str]:
        """GPUs in use, and places that nominations keep."""
        held = self.used()
        for pod in self.pods.values():
            if pod.node is None and pod.nominated is not None:
                held[pod.nominated] += pod.ask.gpus
        return held

    def members(self, name: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.of == name and pod.gone_at is None]

    def bound(self, name: str) -> list[Pod]:
        return [pod for pod in self.members(name) if pod.node]

    def forget_incarnation(self) -> None:
        """A gang without any pod that has begun starts from the beginning."""
        for name, workload in self.workloads.items():
            if all(pod.gated for pod in self.members(name)):
                workload.lifted_at = workload.whole_at = None

    def finish_gang(self, name: str) -> None:
        for uid in [uid for uid, pod in self.pods.items() if pod.of == name]:
            del self.pods[uid]
        del self.workloads[name]


def key_of(name: str) -> GangKey:
    return GangKey("default", "gang", name)
