"""The facts about a pod that no decision reads: its workload, when it began to run and for how long at most,
and a pending reclaim."""

from scheduler_ext.core.node.pod_facts import PodFacts
from scheduler_ext.wire import kube
from scheduler_ext.wire.controllers import top_controller
from scheduler_ext.wire.gangs import max_duration_s
from scheduler_ext.wire.kube import strings
from scheduler_ext.wire.times import seconds

RECLAIM_AT_ANNOTATION = "gpu.scheduler-ext.io/reclaim-at"
"""A time, such as `2026-11-27T14:30:00Z`: the earliest time of the eviction of an idle pod
(docs/features/idle/idle.md#reclaim-idle-gpus). The extender removes it if the pod computes before."""


def pod_facts(pod: kube.Pod) -> PodFacts:
    """The facts about a pod on a node."""
    metadata = pod.metadata or kube.ObjectMeta()
    owner = top_controller(metadata, {})
    return PodFacts(
        f"{owner.kind}/{owner.name}" if owner is not None else "",
        running_since(pod),
        strings(metadata.annotations).get(RECLAIM_AT_ANNOTATION),
        max_duration_s(pod),
    )


def running_since(pod: kube.Pod) -> float | None:
    """When a pod began to run, in seconds since 1970: the latest of its creation, its binding, its start on
    the node, and the first start of a container that runs now. The first two are by the API server's clock,
    so a node whose clock is behind makes no pod older. None while it does not run, or without a time of the
    node."""
    status, metadata = pod.status or kube.PodStatus(), pod.metadata or kube.ObjectMeta()
    started = seconds(status.start_time)
    if status.phase != "Running" or started is None:
        return None
    bound = [each.last_transition_time for each in status.conditions or () if each.type == "PodScheduled"]
    containers = [
        seconds(each.state.running.started_at)
        for each in status.container_statuses or ()
        if each is not None and each.state is not None and each.state.running is not None
    ]
    first = min((each for each in containers if each is not None), default=None)
    times = (seconds(metadata.creation_timestamp), *map(seconds, bound), first)
    return max([started, *(each for each in times if each is not None)])
