"""What the pods of one node ask of GPUs, by namespace, and how sure it is that they have it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from scheduler_ext.core.node.node import NodeInfo

STATES = ("Assumed", "Confirmed", "Nominated")


@dataclass(frozen=True, slots=True)
class PodUsage:
    """``units`` by (namespace, resource), ``share_mib`` by namespace, ``states`` how many pods are in each of
    STATES."""

    units: Counter[tuple[str, str]]
    share_mib: Counter[str]
    states: Counter[str]


def pod_usage(info: NodeInfo) -> PodUsage | None:
    """Of the pods of a node that hold something or wait for others to leave it; None where there are none."""
    if not info.pods and not info.nominated:
        return None
    waiting = sum(pod.request.asks_gpu for pod in info.nominated)
    usage = PodUsage(Counter(), Counter(), Counter(Nominated=waiting))
    # One whose place two extenders write differently is there twice.
    for pod in {pod.uid: pod for pod in info.pods if pod.holds and pod.request.asks_gpu}.values():
        usage.states["Assumed" if pod.uid in info.assumed else "Confirmed"] += 1
        for ask in pod.request.units:
            usage.units[pod.namespace, ask.resource] += ask.count
        if pod.request.shares is not None:
            usage.share_mib[pod.namespace] += pod.request.shares.total_mib
    return usage
