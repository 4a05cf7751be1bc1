"""Pods as the scheduler cache keeps them: on a node with the devices they hold, or waiting for a node."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from scheduler_ext.core.node.node import BoundPod, PendingPod
from scheduler_ext.core.request.constraints import requested_models
from scheduler_ext.core.request.pod_kinds import task_class
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest, parse_holding
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire import kube
from scheduler_ext.wire.controllers import top_controller
from scheduler_ext.wire.cpu import pod_cpu_milli
from scheduler_ext.wire.kube import listed, strings
from scheduler_ext.wire.planned_annotation import read_planned
from scheduler_ext.wire.pod.held_spec import held_spec
from scheduler_ext.wire.pod.pod_amounts import other_requests
from scheduler_ext.wire.pod.pod_claims import claim_names
from scheduler_ext.wire.pod.pod_identity import is_finished, is_terminating, pod_priority
from scheduler_ext.wire.pod.pod_request import pod_request, unparsed_request
from scheduler_ext.wire.redacted import redacted_pod
from scheduler_ext.wire.times import seconds

DEVICES_PREFIX = "devices.gpu.scheduler-ext.io/"
"""Comma-separated GPU UUIDs: the GPUs of the container's share. The extender's Binding sets it, and a policy
keeps it (docs/tasks/shares.md#assignment-of-gpus)."""


def bound_pod(pod: kube.Pod, resources: ResourceNames) -> BoundPod:
    """A pod on a node as a holder: its amounts and devices; its constraints only matter for `asked`. Raises
    QuantityError for an amount of the wrong JSON type."""
    ask = unparsed_request(pod, resources)
    metadata = pod.metadata or kube.ObjectMeta()
    request, held = parse_holding(ask, resources), held_spec(pod)
    return BoundPod(
        uid=ask.uid,
        namespace=ask.namespace,
        name=ask.name,
        priority=ask.priority,
        request=request,
        devices={
            key.removeprefix(DEVICES_PREFIX): listed(value)
            for key, value in ask.annotations.items()
            if key.startswith(DEVICES_PREFIX)
        },
        finished=is_finished(pod),
        terminating=is_terminating(pod),
        labels=_shared(tuple(strings(metadata.labels).items())),
        other_requests=other_requests(held, resources),
        started_at=seconds(pod.status.start_time) if pod.status else None,
        cpu_milli=ask.cpu_milli if held is pod.spec else pod_cpu_milli(held),
        extended_claim=_extended_claim(pod),
        created_at=seconds(metadata.creation_timestamp) if request.asks_gpu else None,
        asked=task_class(request, ask.cpu_milli, requested_models(ask.annotations)),
    )


def _extended_claim(pod: kube.Pod) -> str | None:
    """The claim that kube-scheduler wrote before it bound the pod, if DRA serves its resources."""
    found = pod.status.extended_resource_claim_status if pod.status is not None else None
    return found.resource_claim_name if found is not None else None


def pending_pod(pod: kube.Pod, resources: ResourceNames) -> PendingPod:
    """A pod that waits for a node. Raises QuantityError for an amount of the wrong JSON type."""
    metadata, spec = pod.metadata or kube.ObjectMeta(), pod.spec or kube.PodSpec()
    request = pod_request(pod, resources)
    workload = top_controller(metadata, {})
    holding = bound_pod(pod, resources)
    if isinstance(request, GpuRequest):
        holding = replace(holding, request=request)
    else:
        # An unreadable request is refused, and does not count as demand.
        holding = replace(holding, asked=None, created_at=seconds(metadata.creation_timestamp))
    return PendingPod(
        pod=holding,
        resource_version=metadata.resource_version or "",
        scheduler_name=spec.scheduler_name or "",
        nominated_node=(pod.status.nominated_node_name if pod.status else None) or None,
        claims=tuple(claim_names(pod)),
        invalid=request.message if isinstance(request, InvalidRequest) else None,
        manifest=redacted_pod(pod),
        gated=bool(spec.scheduling_gates),
        workload=(workload.kind, workload.name) if workload is not None else None,
        planned=read_planned(strings(metadata.annotations)),
    )


def unreadable_pod(pod: kube.Pod, problem: str) -> PendingPod:
    """A waiting pod with an amount that is not a quantity: its request is unknown."""
    metadata = pod.metadata or kube.ObjectMeta()
    nothing = BoundPod(
        uid=metadata.uid or "",
        namespace=metadata.namespace or "default",
        name=metadata.name or "",
        priority=pod_priority(pod),
        request=GpuRequest(),
        created_at=seconds(metadata.creation_timestamp),
    )
    return PendingPod(
        nothing, metadata.resource_version or "", "", invalid=problem, manifest=redacted_pod(pod)
    )


@lru_cache(maxsize=4096)
def _shared(labels: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Thousands of pods carry the same labels and share one mapping."""
    return dict(labels)
