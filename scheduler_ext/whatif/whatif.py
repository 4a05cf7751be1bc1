"""A dry run on a whole cluster: pods are bound and evicted in memory only."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from scheduler_ext.core.cycle.cycle import Decision, filter_nodes
from scheduler_ext.core.cycle.placement import Sizing, share_devices
from scheduler_ext.core.cycle.placing import BestNode
from scheduler_ext.core.errors import InventoryError
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.gpu.value_table import part_of_gpu, value_of
from scheduler_ext.core.intree import PodNeeds, intree_rejection
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo
from scheduler_ext.core.node.placed import with_pod
from scheduler_ext.core.preemption.dry_run import DryRun, without
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import Table
from scheduler_ext.explain.explain import allocation
from scheduler_ext.explain.intree_nodes import InTreeNodes, with_pods
from scheduler_ext.explain.nearest import Lacks, RefusingNode, miss_of, nearest
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.pod.cached_pod import bound_pod
from scheduler_ext.wire.pod.held_spec import held_spec
from scheduler_ext.wire.pod.pod_amounts import pod_amounts
from scheduler_ext.wire.pod.pod_claims import ClaimLookup
from scheduler_ext.wire.pod.pod_identity import pod_name, pod_uid
from scheduler_ext.wire.pod.pod_needs import pod_needs
from scheduler_ext.wire.pod.pod_request import pod_request

# So few nodes are compared with kube-scheduler's own filters one by one. The verdicts of more are kept for
# the next pod with equal needs.
_FEW = 64


@dataclass(frozen=True, slots=True)
class PodInfo:
    """A pod that looks for a node: its request of GPUs and its other needs, under a uid of its own."""

    pod: kube.Pod
    uid: str
    request: GpuRequest
    needs: PodNeeds


def read_pod_info(
    pod: kube.Pod, uid: str, resources: ResourceNames, claims: ClaimLookup | None
) -> PodInfo | str:
    """The pod as one that looks for a node under this uid, or why it cannot be read."""
    try:
        request = pod_request(pod, resources, claims)
        needs = pod_needs(pod, claims)
    except QuantityError as error:
        return str(error)
    return request.message if isinstance(request, InvalidRequest) else PodInfo(pod, uid, request, needs)


@dataclass(frozen=True, slots=True)
class Resident:
    """A pod on a node, and its requests of every resource."""

    pod: BoundPod
    amounts: Mapping[str, Fraction]


class WhatIf:
    """The state of a cluster, changed pod by pod; decisions are those of explain. Raises InventoryError for
    an object that cannot be read."""

    def __init__(self, state: ClusterState, config: Configuration) -> None:
        self.sizing, self._per_unit = config.sizing(), config.cost.per_unit
        self.in_tree = InTreeNodes(state.objects, self.sizing.resources, state.infos, state.claims)
        # The pods on each node by uid, with and without GPUs.
        self.residents = _residents(state, self.sizing)
        # Pods written by hand have no uid; their names stand for it. As in explain, no pod is nominated.
        self.infos = {
            name: replace(
                info,
                pods=tuple(pod if pod.uid else replace(pod, uid=name_of(pod)) for pod in info.pods),
                nominated=(),
            )
            for name, info in state.infos.items()
        }
        self._table = Table(
            {name: self.sizing.resolved(info) for name, info in self.infos.items()},
            forecast=Forecast(state.workload, ()),
        )
        self._generation = 0
        self._lacks: Lacks = {}
        self._published: Snapshot | None = None
        self._decisions: dict[GpuRequest, Decision] = {}

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as it is now."""
        if self._published is None:
            self._generation += 1
            self._published = self._table.snapshot(self._generation)
            # Keeps its tables for the kinds of GPUs, which are not computed again.
            self._table.forecast = self._published.forecast
            self._decisions = {}
        return self._published

    def best(self, pod_info: PodInfo) -> str | None:
        """The node that the pod is placed on; None if it fits nowhere."""
        place = self.place(pod_info)
        return None if place is None else place.node

    def place(self, pod_info: PodInfo, among: Collection[str] | None = None) -> BestNode | None:
        """The place of the pod: the most preferred node by its node affinity, then the highest points, then
        the highest total, then the first name; None if it fits on none of these nodes (`among` None: all)."""
        totals = self._decide(pod_info.request).totals[self.snapshot.state_of[:-1]]
        fitting = np.flatnonzero(totals > -np.inf)
        if len(fitting) <= _FEW:
            names = list(self.infos)
            refused = [name for i in fitting if self.in_tree.refusal(pod_info.needs, name := names[int(i)])]
        else:
            refused = [name for name in self.in_tree.refused(pod_info.needs) if name in self.infos]
        totals[self.snapshot.rows(refused)] = -np.inf
        if among is not None:
            totals[self.snapshot.rows([name for name in self.infos if name not in among])] = -np.inf
        if preferences := self.in_tree.preferences(pod_info.needs):
            preferred = np.array([preferences.get(name, 0) for name in self.infos])
            most = preferred.max(initial=0, where=totals > -np.inf)
            totals[preferred < most] = -np.inf
        best = totals.max(initial=-np.inf)
        if best == -np.inf:
            return None
        ranks = self.snapshot.name_rank[:-1]
        equal = np.flatnonzero(totals == best)
        return BestNode(list(self.infos)[int(equal[ranks[equal].argmin()])], float(best))

    def refusal(self, pod_info: PodInfo, among: Collection[str] | None = None) -> dict[str, Any] | None:
        """The nearest refusal of a pod that fits on none of these nodes (`among` None: all), as plain values;
        None without nodes."""
        decision, ours = self._decide(pod_info.request), self.in_tree.ours(pod_info.needs)
        near = nearest(self._refused(pod_info, among), decision, pod_info.needs, ours, self._lacks)
        if near is None:
            return None
        miss = miss_of(near, decision)
        return {"reason": near.reason, "nearestMiss": miss, "nearestNode": near.node.info.name}

    def refusals(self, pod_info: PodInfo, among: Collection[str] | None = None) -> Counter[str]:
        """The number of these nodes by the reason for which they refuse the pod."""
        return Counter(each.reason for each in self._refused(pod_info, among))

    def _refused(self, pod_info: PodInfo, among: Collection[str] | None) -> Iterator[RefusingNode]:
        """Nodes that all refuse the pod."""
        codes = self._decide(pod_info.request).verdict[self.snapshot.state_of[:-1]].tolist()
        in_tree = self.in_tree.refused(pod_info.needs)
        for name, code in zip(self.infos, codes, strict=True):
            if among is None or name in among:
                node, facts = self.snapshot.nodes[name], self.in_tree.facts(name)
                yield RefusingNode(node, pod_info.request, code, in_tree.get(name), facts)

    def bind(self, pod_info: PodInfo, name: str) -> list[dict[str, Any]]:
        """Put a pod on a node that takes it; the devices of its containers, as explain returns them."""
        decision = copy(self._decide(pod_info.request))
        # Equal requests may be of containers with other names.
        decision.request = pod_info.request
        node = self.snapshot.nodes[name]
        state = self.snapshot.state_at(name)
        devices = allocation(node, state, decision)
        held = bound_pod(pod_info.pod, self.sizing.resources)
        pod = replace(
            held,
            uid=pod_info.uid,
            request=replace(held.request, units=pod_info.request.units),
            devices=share_devices(node, state, decision),
            finished=False,
            terminating=False,
            # Of equal pods, the one that started last is evicted first.
            started_at=None,
        )
        amounts = pod_info.needs.requests
        self.residents.setdefault(name, {})[pod_info.uid] = Resident(pod, amounts)
        self.in_tree.change(name, amounts, 1)
        self._replace(with_pod(self.infos[name], pod, self.sizing.resources))
        return devices

    def unbind(self, pod_info: PodInfo, before: NodeInfo) -> None:
        """Take back the last `bind` to a node, which was so before it."""
        del self.residents[before.name][pod_info.uid]
        self.in_tree.change(before.name, pod_info.needs.requests, -1)
        self._replace(before)

    def value_per_hour(self, pod_info: PodInfo, name: str) -> float:
        """The value of what the pod would take of a node that takes it, in the currency of costs."""
        return self._per_unit * _value_per_hour(self._decide(pod_info.request), self.snapshot.state_at(name))

    def evict(self, name: str, uids: Sequence[str]) -> list[BoundPod]:
        """Take pods away from a node; their use in the last report no longer counts."""
        gone = [self.residents[name].pop(uid) for uid in uids]
        for resident in gone:
            self.in_tree.change(name, resident.amounts, -1)
        pods = [resident.pod for resident in gone]
        info = without(self.infos[name], pods)
        # A claim holds its devices until none of its pods is left.
        claims = tuple(
            claim for claim in info.claims if not claim.pods or any(uid not in uids for uid, _ in claim.pods)
        )
        # Pods of a live cluster without GPUs are in the node's sum of CPU alone.
        with_gpus = {pod.uid for pod in info.pods}
        left = info.cpu_elsewhere_milli - sum(pod.cpu_milli for pod in pods if pod.uid not in with_gpus)
        self._replace(replace(info, claims=claims, cpu_elsewhere_milli=max(0, left)))
        return pods

    def fits_without(self, pod_info: PodInfo, name: str, uids: Sequence[str]) -> bool:
        """Whether a node would take a pod if these others had left."""
        gone = [self.residents[name][uid] for uid in uids]
        facts = self.in_tree.facts(name)
        for resident in gone:
            facts = with_pods(facts, resident.amounts, -1) if facts is not None else None
        ours = self.in_tree.ours(pod_info.needs)
        if facts is not None and intree_rejection(pod_info.needs, facts, ignore_resources=ours) is not None:
            return False
        info = without(self.infos[name], [resident.pod for resident in gone])
        return DryRun(info, (), pod_info.request, self.sizing).fits(())

    def _replace(self, info: NodeInfo) -> None:
        self.infos[info.name] = info
        self._decide_on({info.name: self.sizing.resolved(info)})

    def _decide_on(self, changed: Mapping[str, Node]) -> None:
        """Decide on these nodes as they are now."""
        if changed:
            self._table.update(changed)
            self._published = None

    def _decide(self, request: GpuRequest) -> Decision:
        snapshot = self.snapshot
        if request not in self._decisions:
            self._decisions[request] = filter_nodes(request, snapshot, self.sizing.policy)
        return self._decisions[request]


def name_of(pod: BoundPod) -> str:
    """namespace/name, for people."""
    return f"{pod.namespace}/{pod.name}"


def _residents(state: ClusterState, sizing: Sizing) -> dict[str, dict[str, Resident]]:
    found: dict[str, dict[str, Resident]] = {}
    for name, pods in state.objects.pods_by_node().items():
        read = _read_already(state.infos[name]) if name in state.infos else {}
        for pod in pods:
            try:
                bound = read.get(pod_uid(pod)) or bound_pod(pod, sizing.resources)
                amounts = pod_amounts(held_spec(pod))
            except QuantityError as error:
                raise InventoryError(f"Pod {pod_name(pod)}: {error}") from None
            uid = pod_uid(pod) or name_of(bound)
            bound = bound if bound.uid == uid else replace(bound, uid=uid)
            found.setdefault(name, {})[uid] = Resident(bound, amounts)
    return found


def _read_already(info: NodeInfo) -> dict[str, BoundPod]:
    """The pods of a node that are known by their objects, by uid."""
    return {pod.uid: pod for pod in info.pods if pod.uid and pod.holds and pod.uid not in info.assumed}


def _value_per_hour(decision: Decision, state: int) -> float:
    """The value of what the pod takes of a node in this state, which fits it, in the unit of
    core.gpu.value_table. A MIG instance has its part of all instances of its GPU, a share that of the memory
    for shares."""
    scoring, snapshot = decision.scoring, decision.snapshot
    of_models = np.array([value_of(model, scoring.values) for model in snapshot.models])
    own = snapshot.own_values(scoring.values)
    # Of MIG instances that are offered as GPUs, a node without a report has one for each.
    parts = np.array([part_of_gpu(model) for model in snapshot.models])[snapshot.devices.model]
    each = np.where(own > 0, own, of_models[snapshot.devices.model]) * parts
    return float((scoring.of_units(each) + scoring.of_shares(each))[state])
