"""Nominated pods, which wait for victims to leave a node, and planned pods, which only wait for
kube-scheduler: which other pods may use their room."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from scheduler_ext.core.node.holdings import holdings_of
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames


def nodes_with_nominated_pods(infos: Iterable[NodeInfo], uid: str, priority: int) -> dict[str, NodeInfo]:
    """The unsettled nodes that a pod of that uid and priority sees differently, each as that pod sees it."""
    return {
        info.name: seen for info in infos if (seen := with_nominated_pods(info, uid, priority)) is not info
    }


def with_nominated_pods(info: NodeInfo, uid: str, priority: int) -> NodeInfo:
    """The node as a pod of that uid and priority may use it; the same object if that is the node as it is.
    Nominated and planned pods of equal or higher priority keep their place, as in kube-scheduler. Pods of
    lower priority and the pod's own holdings do not count. If two nominated pods of one priority do not both
    fit, the pod without a place does not count against the other."""
    others = tuple(pod for pod in info.pods if pod.uid != uid) if uid else info.pods
    bound = {pod.uid for pod in info.pods if pod.uid} if info.nominated else set()
    waits = bool(uid) and any(pod.uid == uid for pod in info.nominated)
    waiting = tuple(
        # What DRA serves it will have by a claim.
        replace(pod, extended_claim="")
        if pod.extended_claim is None and any(info.by_claim(ask.resource) for ask in pod.request.units)
        else pod
        for pod in info.nominated
        if pod.priority >= priority and not (uid and pod.uid == uid) and pod.uid not in bound
        # Its shares fit nowhere, even when all have left that it waits for.
        if not (waits and pod.priority == priority and pod.request.shares is not None and not pod.devices)
    )
    # A planner that gave the pod a place there knew of the room that it holds for others.
    has_place = any(pod.uid == uid and not pod.expected for pod in info.planned)
    planned = tuple(
        pod
        for pod in info.planned
        if pod.priority >= priority and pod.uid != uid and not (has_place and pod.expected)
    )
    if not waiting and len(others) == len(info.pods) and len(planned) == len(info.planned):
        return info
    return replace(info, pods=others + waiting, nominated=(), planned=planned)


def without_kept(info: NodeInfo) -> NodeInfo:
    """The node as it were if no room were kept there for gangs that wait; the same object if none is."""
    planned = tuple(pod for pod in info.planned if not pod.expected)
    return info if len(planned) == len(info.planned) else replace(info, planned=planned)


def with_nomination(info: NodeInfo, pod: BoundPod, victims: Collection[str]) -> NodeInfo:
    """The node as it is once the pod is nominated to it and its victims (uids) are terminating."""
    nominated = info.nominated
    if all(other.uid != pod.uid for other in nominated):
        nominated = (*nominated, pod)
    pods = tuple(replace(other, terminating=True) if other.uid in victims else other for other in info.pods)
    return replace(info, pods=pods, nominated=nominated)


def both_fit(
    info: NodeInfo, one: BoundPod, other: BoundPod, gone: Collection[str], resources: ResourceNames
) -> bool:
    """Whether the node's amounts suffice for both pods, as kube-scheduler counts them for `other`, when the
    pods in `gone` (uids) and those that leave anyway have left; true if they do not compete."""
    if info.allocatable is None:
        return True
    both = (one.uid, other.uid)
    waiting = (pod for pod in (*info.nominated, *info.planned) if pod.priority >= other.priority)
    beside = {
        pod.uid: pod
        for pod in (*waiting, *info.pods)
        if pod.uid not in gone and pod.uid not in both and not pod.terminating
    }

    def requested(*pods: BoundPod) -> dict[str, int]:
        return dict(holdings_of(replace(info, report=None, pods=pods, nominated=()), resources).requested)

    together = requested(*beside.values(), one, other)
    wanted_by_both = requested(one).keys() & requested(other).keys()
    return all(together[name] <= info.limit(name) for name in wanted_by_both)
