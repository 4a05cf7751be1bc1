"""Which pods may be moved: evicted, and created again by their controller on another GPU."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

from scheduler_ext.core.errors import PodError
from scheduler_ext.core.node.lazy import lazy
from scheduler_ext.core.node.node import BoundPod, Node
from scheduler_ext.core.preemption.disruption import Budget, BudgetIndex
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.request import InvalidRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.views.node_value import pod_values
from scheduler_ext.whatif.whatif import PodInfo, WhatIf, name_of
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.controllers import controlling_owner
from scheduler_ext.wire.gangs import read_gang_request
from scheduler_ext.wire.kube import strings
from scheduler_ext.wire.pod.cached_pod import DEVICES_PREFIX
from scheduler_ext.wire.pod.pod_identity import is_terminating, pod_name, pod_uid
from scheduler_ext.wire.pod.pod_needs import pod_needs
from scheduler_ext.wire.pod.pod_request import pod_request
from scheduler_ext.wire.times import seconds

MOVABLE_ANNOTATION = "gpu.scheduler-ext.io/movable"
# Annotations by which a pod asks autoscalers to be left alone, and the value that does so.
OPT_OUTS = {
    MOVABLE_ANNOTATION: "false",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
# On the object of a static pod in the API server (k8s.io/kubernetes/pkg/kubelet/types).
_MIRROR = "kubernetes.io/config.mirror"
_HOUR_S = 3600.0


@dataclass(eq=False)
class MovablePod:
    """A pod that may be moved. `budgets` are the indices of its PodDisruptionBudgets, at most one;
    it holds its GPUs for `_hours`."""

    bound: BoundPod
    node: str
    owner: kube.OwnerReference
    budgets: tuple[int, ...]
    _values: "_NodeValues"
    _hours: float
    _pod: kube.Pod
    _resources: ResourceNames

    @property
    def uid(self) -> str:
        return self.bound.uid

    @lazy
    def value_at_risk(self) -> float:
        """The value of the GPUs that it holds, since it started: the work that a restart may lose."""
        return self._values.of(self.bound.uid) * self._hours

    @property
    def again(self) -> PodInfo:
        """The pod that the controller creates in its place. Raises PodError if there can be none."""
        if isinstance(self._again, str):
            raise PodError(f"pod {name_of(self.bound)}: {self._again}")
        return self._again

    @property
    def can_be_read(self) -> bool:
        return not isinstance(self._again, str)

    @lazy
    def _again(self) -> PodInfo | str:
        # Read on demand, because few pods of a large cluster are looked at.
        return created_again(self._pod, self.bound, self._resources)


class _NodeValues:
    """The values per hour of the pods on a node; computed on demand, because few nodes are compared."""

    def __init__(self, node: Node, config: Configuration) -> None:
        self._node, self._config = node, config

    def of(self, uid: str) -> float:
        """By the uid of the pod, in the currency of costs."""
        return self._all.get(uid, 0.0)

    @lazy
    def _all(self) -> dict[str, float]:
        return pod_values(self._node, self._config.sizing(), self._config.cost.per_unit)


@dataclass(frozen=True, slots=True)
class Rules:
    """Which pods may be moved now: `at` is the present, seconds since 1970."""

    min_age_s: float
    at: float


def immovable(
    pod: kube.Pod, budgets: Sequence[Budget], bound: BoundPod, rules: Rules, schedulers: Sequence[str]
) -> str | None:
    """Why a pod must stay where it is; None for a pod that may be moved. `budgets` are its own, `schedulers`
    those that ask the extender."""
    scheduler = (pod.spec.scheduler_name if pod.spec is not None else None) or schedulers[0]
    metadata = pod.metadata or kube.ObjectMeta()
    annotations, owner = strings(metadata.annotations), controlling_owner(metadata)
    opted_out = next((key for key, value in OPT_OUTS.items() if annotations.get(key) == value), None)
    started = bound.started_at
    created = seconds(metadata.creation_timestamp) if started is None else started
    reasons = {
        "is being deleted": is_terminating(pod),
        "is a static pod of its node": _MIRROR in annotations or (owner is not None and owner.kind == "Node"),
        "has no controller that would create it again": owner is None,
        "belongs to a DaemonSet": owner is not None and owner.kind == "DaemonSet",
        f"has the annotation {opted_out}": opted_out is not None,
        f"is younger than {rules.min_age_s:g} s": created is not None
        and rules.at - created < rules.min_age_s,
        f"is placed by the scheduler {scheduler}": scheduler not in schedulers,
        # The others would wait for it, or end with it.
        "belongs to a gang": read_gang_request(pod) is not None,
        "uses ResourceClaims": bool(pod.spec and pod.spec.resource_claims)
        or bound.extended_claim is not None,
        "has two PodDisruptionBudgets, so that no eviction is allowed": len(budgets) > 1,
        "has a PodDisruptionBudget that allows no disruption now": any(not each.allowed for each in budgets),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def movable_pods(
    state: ClusterState,
    cluster: WhatIf,
    config: Configuration,
    rules: Rules,
) -> tuple[list[MovablePod], dict[str, str]]:
    """The pods with GPUs that may be moved, and why each other one may not, by uid."""
    budgets, found, staying = state.objects.budgets, list[MovablePod](), dict[str, str]()
    index = BudgetIndex(budgets)
    nodes, resources = cluster.snapshot.nodes, config.resource_names()
    for node, pods in state.objects.pods_by_node().items():
        values = _NodeValues(nodes[node], config) if node in nodes else None
        for pod in pods if values is not None else ():
            assert values is not None
            resident = cluster.residents[node].get(pod_uid(pod) or pod_name(pod))
            if resident is None or not resident.pod.request.asks_gpu:
                continue
            bound = resident.pod
            own = index.covering(bound)
            reason = immovable(pod, [budgets[i] for i in own], bound, rules, config.scheduler_names)
            owner = controlling_owner(pod.metadata or kube.ObjectMeta())
            if reason is not None or owner is None:
                staying[bound.uid] = reason or ""
            else:
                hours = _hours_since(bound.started_at, rules)
                found.append(MovablePod(bound, node, owner, own, values, hours, pod, resources))
    return found, staying


def created_again(pod: kube.Pod, bound: BoundPod, resources: ResourceNames) -> PodInfo | str:
    """The pod that the controller creates in the place of this one: without a node and without devices; or
    why the extender would not place it."""
    spec = copy(pod.spec or kube.PodSpec())
    metadata = copy(pod.metadata or kube.ObjectMeta())
    spec.node_name = None
    metadata.uid = f"{bound.uid} again"
    metadata.annotations = {
        key: value
        for key, value in strings(metadata.annotations).items()
        if not key.startswith(DEVICES_PREFIX)
    }
    new = kube.Pod(metadata=metadata, spec=spec)
    try:
        request, needs = pod_request(new, resources), pod_needs(new)
    except QuantityError as error:
        return f"cannot be read: {error}"
    if isinstance(request, InvalidRequest):
        return f"would be refused: {request.message}"
    return PodInfo(new, metadata.uid, request, needs)


def _hours_since(started_at: float | None, rules: Rules) -> float:
    """A start that is not known counts as an hour ago."""
    return 1.0 if started_at is None else max(0.0, rules.at - started_at) / _HOUR_S


def held_devices(state: ClusterState, uids: Sequence[str]) -> dict[str, list[str]]:
    """The GPUs and MIG instances that these pods hold, as far as they are known, by uid of the pod."""
    found: dict[str, list[str]] = {uid: [] for uid in uids}
    for info in state.infos.values():
        for pod in info.pods:
            uid = pod.uid or name_of(pod)
            if uid not in found:
                continue
            found[uid] += [device for devices in pod.devices.values() for device in devices]
            for device in info.devices:
                found[uid] += [device.uuid for holder in device.holders if pod.is_holder(holder)]
                found[uid] += [
                    instance.uuid
                    for instance in device.mig.instances
                    if instance.holder is not None and pod.is_holder(instance.holder)
                ]
    return {uid: list(dict.fromkeys(devices)) for uid, devices in found.items()}
