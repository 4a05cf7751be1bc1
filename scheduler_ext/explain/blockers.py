"""The pods that would have to leave a node for a pod to fit there."""

from __future__ import annotations

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.node.node import BoundPod, Node
from scheduler_ext.core.preemption.dry_run import DryRun, Gone
from scheduler_ext.core.request.request import GpuRequest

# A node has a few hundred pods with GPUs at most; larger crowds are reported as a whole.
_MOST = 256


def blockers(node: Node, request: GpuRequest, sizing: Sizing, uid: str) -> list[BoundPod]:
    """A few pods, of the lowest priorities, without which the request fits on the node; empty if no
    departures help.

    One pod if one suffices, otherwise as many of the lowest priorities as needed, and none in vain. ``uid``
    is the requesting pod, which does not block itself.
    """
    pods = sorted(
        (pod for pod in node.info.pods if pod.holds and pod.uid != uid and pod.request.asks_gpu),
        key=lambda pod: (not pod.terminating, pod.priority, pod.namespace, pod.name),
    )[:_MOST]
    if not pods:
        return []
    departures = DryRun(node.info, pods, request, sizing)
    found = departures.first_fit([(i,) for i in range(len(pods))])
    if found is None:
        everybody = [tuple(range(count)) for count in range(2, len(pods) + 1)]
        found = departures.first_fit(everybody)
        found = _without_the_needless(found, departures) if found is not None else ()
    return [pods[i] for i in found]


def _without_the_needless(gone: Gone, departures: DryRun) -> Gone:
    """The highest priorities stay first, if they may."""
    for i in reversed(gone):
        fewer = tuple(each for each in gone if each != i)
        if departures.fits(fewer):
            gone = fewer
    return gone
