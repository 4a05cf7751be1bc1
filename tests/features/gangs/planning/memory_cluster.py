"""A cluster of GPUs that are only counted: what the pure planner runs on in these tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from scheduler_ext.core.cycle.placing import BestNode
from scheduler_ext.core.filters.model import Model
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.request.gang_request import GangKey, GangRequest
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.features.gangs.planning.draining import Running, Topology
from scheduler_ext.features.gangs.planning.gang import Gang, Member, MemberState, gangs_of
from scheduler_ext.features.gangs.planning.gang_bounds import KeepingBounds
from tests.core.asked import whole

ZONE = "zone"
# All GPUs may be kept for gangs whose start is not known.
ALL = KeepingBounds(share=1.0)


class Ask(NamedTuple):
    """So many GPUs of a model ("": any)."""

    gpus: int
    model: str = ""


def request_of(ask: Ask) -> GpuRequest:
    """The same in words of the core."""
    return whole(ask.gpus, models=(ask.model,) if ask.model else ())


@dataclass(frozen=True)
class Host:
    gpus: int
    model: str = "H100"
    zone: str = ""


class MemoryCluster:
    """Nodes with free GPUs. The fullest node that takes a pod is best, as the packing scores have it."""

    def __init__(self, hosts: Mapping[str, Host], running: Iterable[tuple[Running, int]] = ()) -> None:
        self._hosts = dict(hosts)
        self.free = {name: host.gpus for name, host in hosts.items()}
        self._gpus: dict[str, int] = {}
        for pod, gpus in running:
            self._gpus[pod.uid] = gpus
            self.free[pod.node] -= gpus
        self._journal: list[tuple[str, int]] = []

    @property
    def nodes(self) -> Collection[str]:
        return self._hosts.keys()

    def best(self, ask: Ask, among: Collection[str] | None = None) -> BestNode | None:
        names = self._hosts if among is None else among
        fitting = [
            (self.free[name] - ask.gpus, name)
            for name in names
            if name in self._hosts and self._takes(ask, name) and self.free[name] >= ask.gpus
        ]
        if not fitting:
            return None
        left, name = min(fitting)
        return BestNode(name, 1 / (1 + left))

    def put(self, ask: Ask, node: str) -> None:
        assert self.free[node] >= ask.gpus, f"{node} has {self.free[node]} GPUs free, not {ask.gpus}"
        self._change(node, -ask.gpus)

    def remove(self, running: Running) -> None:
        self._change(running.node, self._gpus_of(running))

    def bring_back(self, running: Running) -> None:
        assert self.free[running.node] >= self._gpus_of(running), f"{running.uid} finds its GPUs taken"
        self._change(running.node, -self._gpus_of(running))

    def _gpus_of(self, running: Running) -> int:
        return self._gpus[running.uid] if running.planned is None else int(running.planned.gpus)

    def take_back(self, ask: Ask, node: str) -> None:
        self._change(node, ask.gpus)

    def mark(self) -> int:
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        while len(self._journal) > mark:
            node, change = self._journal.pop()
            self.free[node] -= change

    def part_asked(self, asks: Iterable[Ask], nodes: Collection[str]) -> float:
        return sum(ask.gpus for ask in asks) / sum(self._hosts[name].gpus for name in nodes)

    def within_reach(self, ask: Ask) -> Collection[str]:
        return [
            name for name, host in self._hosts.items() if self._takes(ask, name) and host.gpus >= ask.gpus
        ]

    def refusals(self, ask: Ask, among: Collection[str] | None = None) -> Mapping[str, int]:
        names = self._hosts if among is None else among
        return Counter(
            "Insufficient nvidia.com/gpu per device" if self._takes(ask, name) else Model.reason.text
            for name in names
        )

    def _takes(self, ask: Ask, node: str) -> bool:
        return ask.model in ("", self._hosts[node].model)

    def _change(self, node: str, change: int) -> None:
        self.free[node] += change
        self._journal.append((node, change))


def topology(hosts: Mapping[str, Host]) -> Topology:
    return {ZONE: {name: host.zone for name, host in hosts.items() if host.zone}}


def running(
    uid: str,
    node: str,
    gpus: int = 1,
    *,
    ends: float | None = None,
    leaving: bool = False,
    gang: GangKey | None = None,
    **fields: Any,
) -> tuple[Running, int]:
    """A pod on a node, with its GPUs; `fields` are further ones of it."""
    given = {"priority": 0, "started_at": 0.0, **fields}
    pod = BoundPod(uid, "default", uid, request=GpuRequest(priority=given["priority"]), **given)
    return Running(pod, node, ends, leaving, gang), gpus


def member(uid: str, gpus: int = 1, state: MemberState = MemberState.GATED, **more: Any) -> Member[Ask]:
    model = str(more.pop("model", ""))
    return replace(Member(uid, Ask(gpus, model), state, kind=(gpus, model)), **more)


def gang(*members: Member[Ask], name: str = "train", size: int | None = None, **wishes: Any) -> Gang[Ask]:
    """A gang of these members; all of them, unless `size` says more. `wishes` are fields of GangRequest."""
    gang_request = GangRequest(GangKey("default", "gang", name), size or len(members), **wishes)
    return gangs_of([(gang_request, each) for each in members])[0]


def team(count: int, gpus: int = 1, prefix: str = "m", **more: Any) -> list[Member[Ask]]:
    """Members that ask the same."""
    return [member(f"{prefix}{i}", gpus, **more) for i in range(count)]


def packs(asks: Sequence[Ask], hosts: Mapping[str, Host], free: Mapping[str, int]) -> bool:
    """Whether these pods fit together on the free GPUs, by trying everything."""
    if not asks:
        return True
    first, *rest = sorted(asks, reverse=True)
    tried = set()
    for name, host in hosts.items():
        alike = free[name], host.model
        if alike in tried or free[name] < first.gpus or first.model not in ("", host.model):
            continue
        tried.add(alike)
        if packs(rest, hosts, {**free, name: free[name] - first.gpus}):
            return True
    return False


def packs_in_domain(
    gang_request: GangRequest, asks: Sequence[Ask], hosts: Mapping[str, Host], free: Mapping[str, int]
) -> bool:
    """The same, in one zone if the gang requires that."""
    if gang_request.required_topology is None:
        return packs(asks, hosts, free)
    zones: dict[str, dict[str, Host]] = {}
    for name, host in hosts.items():
        zones.setdefault(host.zone, {})[name] = host
    return any(packs(asks, there, free) for zone, there in zones.items() if zone)
