"""Demand observed from a list of pods, as a live inventory would observe it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from scheduler_ext.core.cache.observed_demand import ObservedDemand
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire import kube
from scheduler_ext.wire.pod import asks_gpu, bound_pod, is_finished, pending_pod


def workload_of(pods: Iterable[kube.Pod], resources: ResourceNames) -> Workload:
    """The demand of these pods in the order of their creation; an unreadable pod counts as nothing."""
    arrivals = ObservedDemand()
    arrivals.hold()
    for pod in pods:
        with suppress(QuantityError):
            came = _came(pod, resources)
            if came is not None and came.asked is not None:
                arrivals.came(came.asked, came.created_at)
    arrivals.release()
    return arrivals.workload()


def _came(pod: kube.Pod, resources: ResourceNames) -> BoundPod | None:
    if pod.spec is None or not asks_gpu(pod.spec, resources):
        return None
    if pod.spec.node_name:
        return bound_pod(pod, resources)
    return None if is_finished(pod) else pending_pod(pod, resources).pod
