"""Pods that wait for a node where others are leaving for them: who may count on what they wait for."""

from __future__ import annotations

from dataclasses import replace

from scheduler_ext.core.node import NodeInfo


def seen_by(info: NodeInfo, uid: str, priority: int) -> NodeInfo:
    """The node as a pod of that uid and priority may count on it; the same object where nothing applies.

    Nominated pods of equal or higher priority hold their place against it, as in kube-scheduler; those of
    lower priority do not, nor does what the pod itself holds or waits for there.
    """
    others = tuple(pod for pod in info.pods if pod.uid != uid) if uid else info.pods
    bound = {pod.uid for pod in info.pods if pod.uid} if info.nominated else set()
    waiting = tuple(
        pod
        for pod in info.nominated
        if pod.priority >= priority and not (uid and pod.uid == uid) and pod.uid not in bound
    )
    if not waiting and len(others) == len(info.pods):
        return info
    return replace(info, pods=others + waiting, nominated=())
