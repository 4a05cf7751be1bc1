"""Pods that wait for a node where others are leaving for them: who may count on what they wait for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from scheduler_ext.core.node import BoundPod, Node, NodeInfo


def seen_differently(
    nodes: Mapping[str, Node], unsettled: Iterable[str], uid: str, priority: int
) -> dict[str, NodeInfo]:
    """The unsettled nodes that differ for a pod of that uid and priority, as it sees them."""
    infos = {name: nodes[name].info for name in unsettled}
    return {name: seen for name, info in infos.items() if (seen := seen_by(info, uid, priority)) is not info}


def seen_by(info: NodeInfo, uid: str, priority: int) -> NodeInfo:
    """The node as a pod of that uid and priority may count on it; the same object where nothing applies.

    Nominated pods of equal or higher priority hold their place against it, as in kube-scheduler; those of
    lower priority do not, nor does what the pod itself holds or waits for there. Of two nominated pods of one
    priority that do not fit together, the one that has a place is not kept out by the one that has none.
    """
    others = tuple(pod for pod in info.pods if pod.uid != uid) if uid else info.pods
    bound = {pod.uid for pod in info.pods if pod.uid} if info.nominated else set()
    waits = bool(uid) and any(pod.uid == uid for pod in info.nominated)
    waiting = tuple(
        pod
        for pod in info.nominated
        if pod.priority >= priority and not (uid and pod.uid == uid) and pod.uid not in bound
        if not (waits and pod.priority == priority and _has_no_place(pod))
    )
    if not waiting and len(others) == len(info.pods):
        return info
    return replace(info, pods=others + waiting, nominated=())


def _has_no_place(pod: BoundPod) -> bool:
    """Whether a nominated pod's shares fit nowhere, even when all have left that it waits for."""
    return pod.request.shares is not None and not pod.devices
