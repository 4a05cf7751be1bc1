"""Placement of pods that arrive in a cluster one after the other."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scheduler_ext.core.dra.published import TEMPLATE_PREFIX
from scheduler_ext.core.errors import SimulationError
from scheduler_ext.core.framework.refusal import INVALID_REQUEST
from scheduler_ext.core.gpu.value_table import DIGITS
from scheduler_ext.core.intree import NO_NODES
from scheduler_ext.core.request.gang_request import GangKey, GangRequest, InvalidGang
from scheduler_ext.explain.explain import API_VERSION
from scheduler_ext.sim.cluster.eviction import find_eviction
from scheduler_ext.sim.extension import GangPlaces, Missed, extensions
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.whatif.whatif import PodInfo, WhatIf, name_of, read_pod_info
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.gangs import GANG_GATE, read_gang_request
from scheduler_ext.wire.objects import Objects
from scheduler_ext.wire.pod.pod_claims import claim_names
from scheduler_ext.wire.pod.pod_identity import is_finished, is_terminating, pod_name, pod_priority, pod_uid
from scheduler_ext.wire.pod.pod_needs import not_modelled

Json = dict[str, Any]

_ENDED = "a pod that has ended or is being deleted (it is placed as a new one)"


def by_priority(pods: Sequence[kube.Pod]) -> list[kube.Pod]:
    """The highest priority first, as in kube-scheduler's queue; equal priorities keep their order."""
    return sorted(pods, key=lambda pod: -pod_priority(pod))


def simulate(pods: Sequence[kube.Pod], state: ClusterState, config: Configuration) -> Json:
    """The Simulation of these pods on a cluster, in their order, as plain JSON values. Each is bound before
    the next is placed, evicting others if kube-scheduler would; a pod that cannot be read becomes an item
    with the reason. The pods of a gang are placed together when the last of them comes, or none is, if a
    feature does that. Raises SimulationError for a pod that the cluster already runs, InventoryError for an
    object of the cluster, naming it and its field."""
    cluster = WhatIf(state, config)
    refuse_running(pods, state.objects)
    run = _ClusterRun(cluster, state, config, pods)
    return {
        "apiVersion": API_VERSION,
        "kind": "Simulation",
        "currency": config.cost.currency,
        "items": run.items(),
    }


def refuse_running(pods: Sequence[kube.Pod], objects: Objects) -> None:
    """Raises SimulationError for pods that are on a node of the cluster already."""
    bound = {pod_name(pod): node for node, here in objects.pods_by_node().items() for pod in here}
    running = [pod_name(pod) for pod in pods if pod_name(pod) in bound]
    if running:
        raise SimulationError(
            f"Pod {running[0]} is on node {bound[running[0]]} already"
            + (f", and {len(running) - 1} more are on theirs" if running[1:] else "")
            + "; give the pods that are to come only"
        )


class _ClusterRun:
    """The cluster as it is now, and what PodDisruptionBudgets still allow."""

    def __init__(
        self, cluster: WhatIf, state: ClusterState, config: Configuration, pods: Sequence[kube.Pod]
    ) -> None:
        self._cluster = cluster
        self._budgets = list(state.objects.budgets)
        self._claims = state.claims
        self._resources = config.resource_names()
        self._empty_victims = config.preemption.empty_victims
        self._pods = pods
        self._gangs: GangPlaces | None = next(
            (each.gangs(cluster, state.objects) for each in extensions()), None
        )
        taken = {uid for here in cluster.residents.values() for uid in here}
        self._uids = Counter([*taken, *(pod_uid(pod) for pod in pods)])

    def items(self) -> list[Json]:
        """The outcome of each pod."""
        found: dict[int, Json] = {}
        positions_of: dict[GangKey, list[int]] = {}
        for position, pod in enumerate(self._pods):
            if isinstance(gang_request := self._gang_request(pod), GangRequest):
                positions_of.setdefault(gang_request.key, []).append(position)
        gangs = {positions[-1]: positions for positions in positions_of.values()}
        members = {position for positions in gangs.values() for position in positions}
        for position, pod in enumerate(self._pods):
            if position in gangs:
                found |= self._together(gangs[position])
            elif position not in members:
                found[position] = self._next(pod)
        return [found[position] for position in range(len(self._pods))]

    def _together(self, positions: Sequence[int]) -> dict[int, Json]:
        """The outcome of the pods of a gang, by their positions."""
        items = {position: self._item(self._pods[position]) for position in positions}
        members: dict[int, tuple[GangRequest, PodInfo]] = {}
        for position in positions:
            pod = self._pods[position]
            gang_request, pod_info = self._gang_request(pod), self._pod_info(pod)
            if isinstance(gang_request, GangRequest):
                if isinstance(pod_info, PodInfo):
                    members[position] = gang_request, pod_info
                else:
                    items[position] |= {"reason": INVALID_REQUEST.text, "message": pod_info}
        if len(members) < len(positions):
            broken = next(pod_name(self._pods[each]) for each in positions if each not in members)
            missed = {"message": f"the pod {broken} of its gang has an invalid request"}
            return {each: item | (missed if each in members else {}) for each, item in items.items()}
        assert self._gangs is not None
        found = self._gangs.place(list(members.values()))
        if isinstance(found, Missed):
            refused = {position: found.refused.get(each.uid) or {} for position, (_, each) in members.items()}
            return {each: item | refused[each] | {"message": found.message} for each, item in items.items()}
        for position, (_, pod_info) in members.items():
            got = found.get(pod_info.uid)
            if got is not None:
                items[position] |= got
                self._allocate(self._pods[position], got["node"])
        # The gang has started: pods beyond its size join it.
        joining = [position for position in positions if items[position]["node"] is None]
        return items | {each: self._next(self._pods[each]) for each in joining}

    def _item(self, pod: kube.Pod) -> Json:
        ended = [_ENDED] if is_finished(pod) or is_terminating(pod) else []
        gate = None if self._gangs is None else GANG_GATE
        return {
            "pod": pod_name(pod),
            "gang": gang_request.key.name
            if isinstance(gang_request := self._gang_request(pod), GangRequest)
            else None,
            "node": None,
            "devices": [],
            "valuePerHour": None,
            "reason": None,
            "nearestMiss": None,
            "nearestNode": None,
            "victims": [],
            "message": None,
            "notModelled": [
                *(each for each in not_modelled(pod, self._claims) if each != gate),
                *ended,
            ],
        }

    def _next(self, pod: kube.Pod) -> Json:
        """Where a pod goes, or why nowhere."""
        item = self._item(pod)
        if isinstance(gang_request := self._gang_request(pod), InvalidGang):
            return item | {"reason": INVALID_REQUEST.text, "message": gang_request.message}
        pod_info = self._pod_info(pod)
        if isinstance(pod_info, str):
            return item | {"reason": INVALID_REQUEST.text, "message": pod_info}
        node = self._cluster.best(pod_info)
        if node is None:
            eviction = find_eviction(
                pod_info, self._cluster, self._budgets, empty_victims=self._empty_victims
            )
            if eviction is None:
                return item | (self._cluster.refusal(pod_info) or {"reason": NO_NODES})
            node, uids = eviction
            victims = self._cluster.evict(node, uids)
            # They count against their budgets from now on.
            self._budgets = [
                replace(budget, allowed=max(0, budget.allowed - sum(map(budget.counts, victims))))
                for budget in self._budgets
            ]
            item["victims"] = [name_of(victim) for victim in victims]
        value = round(self._cluster.value_per_hour(pod_info, node), DIGITS)
        item |= {"node": node, "devices": self._cluster.bind(pod_info, node), "valuePerHour": value}
        self._allocate(pod, node)
        return item

    def _allocate(self, pod: kube.Pod, node: str) -> None:
        """The pod's own claims have devices of the node now: other pods that share them can only go there."""
        if self._claims is None:
            return
        namespace = pod_name(pod).partition("/")[0]
        for name in claim_names(pod):
            claim = self._claims.claim(namespace, name)
            if claim is not None and claim.devices is None and not name.startswith(TEMPLATE_PREFIX):
                # Which devices they are is on the node.
                self._claims.update_claim(replace(claim, devices=(), node=node))

    def _gang_request(self, pod: kube.Pod) -> GangRequest | InvalidGang | None:
        """The gang of a pod, if the pods of gangs are placed together."""
        return None if self._gangs is None else read_gang_request(pod)

    def _pod_info(self, pod: kube.Pod) -> PodInfo | str:
        """The pod that looks for a node, or the reason why it cannot be read."""
        uid = pod_uid(pod)
        # Copies of a manifest have one uid; here each is a pod of its own.
        name = uid if uid and self._uids[uid] == 1 else pod_name(pod)
        return read_pod_info(pod, name, self._resources, self._claims)
