"""Gangs in a dry run: the pods of one are placed together, or none is."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from scheduler_ext.core.cycle.placing import BestNode
from scheduler_ext.core.gpu.value_table import DIGITS
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.gang_request import NODE_POOL, GangKey, GangRequest
from scheduler_ext.features.gangs.planning.draining import Topology
from scheduler_ext.features.gangs.planning.gang import Gang, Member, MemberState, gangs_of
from scheduler_ext.features.gangs.planning.gang_fit import GangMiss, fit
from scheduler_ext.features.gangs.planning.gang_words import assembling, nearest_miss, no_domain
from scheduler_ext.sim.extension import Missed
from scheduler_ext.whatif.whatif import PodInfo, WhatIf
from scheduler_ext.wire.gangs import read_gang_request
from scheduler_ext.wire.objects import Objects
from scheduler_ext.wire.pod.pod_identity import is_finished, pod_uid

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Put:
    """A pod on a node, with what it got, and the node before."""

    pod_info: PodInfo
    before: NodeInfo
    got: Json


class _RefusalCounts(NamedTuple):
    """The nodes that refuse a pod, by reason, and the fields of the nearest refusal."""

    counts: Mapping[str, int]
    nearest: Json | None


class TogetherPlaces:
    """A `Placing` on a cluster that is changed in memory."""

    def __init__(self, cluster: WhatIf) -> None:
        self._cluster = cluster
        self._put: list[_Put] = []

    def best(self, ask: PodInfo, among: Collection[str] | None = None) -> BestNode | None:
        """The place of the pod now."""
        return self._cluster.place(ask, among)

    def put(self, ask: PodInfo, node: str) -> None:
        """The pod is on a node that takes it."""
        before = self._cluster.infos[node]
        value = round(self._cluster.value_per_hour(ask, node), DIGITS)
        got = {"node": node, "devices": self._cluster.bind(ask, node), "valuePerHour": value}
        self._put.append(_Put(ask, before, got))

    def mark(self) -> int:
        """The number of pods that were put."""
        return len(self._put)

    def rollback(self, mark: int) -> None:
        """Take back the pods that were put since."""
        while len(self._put) > mark:
            put = self._put.pop()
            self._cluster.unbind(put.pod_info, put.before)

    def settle(self) -> dict[str, Json]:
        """Keep all pods: by uid, the node, devices and value that each of them got."""
        got = {put.pod_info.uid: put.got for put in self._put}
        self._put.clear()
        return got


class GangsOfCluster:
    """The gangs of a dry run, those with pods on the cluster included."""

    def __init__(self, cluster: WhatIf, objects: Objects) -> None:
        self._cluster = cluster
        self._objects = objects
        self._places = TogetherPlaces(cluster)
        self._bound: Mapping[GangKey, Sequence[tuple[GangRequest, Member[PodInfo]]]] | None = None

    def place(self, members: Sequence[tuple[GangRequest, PodInfo]]) -> dict[str, Json] | Missed:
        """Put the members of a gang on nodes, as many as its size. By uid, what each of them got; or why none
        of them has a place."""
        gang = self._gang(members)
        if gang.problem is not None or gang.missing:
            return Missed(gang.problem or assembling(gang))
        cluster = self._cluster

        def about(ask: PodInfo, nodes: Collection[str] | None) -> _RefusalCounts:
            return _RefusalCounts(cluster.refusals(ask, nodes), cluster.refusal(ask, nodes))

        found = fit(gang, self._places, self._topology(gang.request), about=about)
        if not isinstance(found, GangMiss):
            return self._places.settle()
        if none := no_domain(gang, found):
            return Missed(none)
        refused: dict[str, _RefusalCounts] = found.about_each(gang)
        counts = {uid: each.counts for uid, each in refused.items()}
        words = nearest_miss(found, counts, lambda pod_info: pod_info.request)
        return Missed(words, {uid: each.nearest for uid, each in refused.items()})

    def _gang(self, asking: Sequence[tuple[GangRequest, PodInfo]]) -> Gang[PodInfo]:
        kinds: list[tuple[object, object]] = []
        members = list(self._on_nodes().get(asking[0][0].key, ()))
        for number, (gang_request, pod_info) in enumerate(asking):
            kind = pod_info.request, pod_info.needs
            if kind not in kinds:
                kinds.append(kind)
            member = Member(
                pod_info.uid,
                pod_info,
                MemberState.GATED,
                priority=pod_info.request.priority,
                created_at=number,
                kind=kinds.index(kind),
            )
            members.append((gang_request, member))
        return gangs_of(members)[0]

    def _on_nodes(self) -> Mapping[GangKey, Sequence[tuple[GangRequest, Member[PodInfo]]]]:
        """The members that run already."""
        if self._bound is None:
            found: dict[GangKey, list[tuple[GangRequest, Member[Any]]]] = {}
            for node, pods in self._objects.pods_by_node().items():
                for pod in pods:
                    gang_request = None if is_finished(pod) else read_gang_request(pod)
                    if isinstance(gang_request, GangRequest):
                        member: Member[Any] = Member(pod_uid(pod), None, MemberState.BOUND, node=node)
                        found.setdefault(gang_request.key, []).append((gang_request, member))
            self._bound = found
        return self._bound

    def _topology(self, gang_request: GangRequest) -> Topology:
        found: dict[str, dict[str, str]] = {}
        for key in (gang_request.required_topology, gang_request.preferred_topology):
            if key is None:
                continue
            values = found[key] = {}
            for name, info in self._cluster.infos.items():
                facts = self._cluster.in_tree.facts(name)
                labels = facts.labels if facts is not None else {}
                if value := info.pool if key == NODE_POOL else labels.get(key, ""):
                    values[name] = value
        return found
