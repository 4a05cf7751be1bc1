"""A pod's GPU request."""

from dataclasses import replace

from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.request import (
    ContainerRequest,
    ContainerRole,
    GpuRequest,
    InvalidRequest,
    UnparsedRequest,
    parse_request,
)
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire import kube
from scheduler_ext.wire.cpu import pod_cpu_milli
from scheduler_ext.wire.kube import quantity_text, strings
from scheduler_ext.wire.pod.pod_amounts import SHOWN_CHARS, all_containers
from scheduler_ext.wire.pod.pod_claims import ClaimLookup, claim_request
from scheduler_ext.wire.pod.pod_identity import pod_priority

_NOTHING = kube.ResourceRequirements()


def unparsed_request(pod: kube.Pod, resources: ResourceNames) -> UnparsedRequest:
    """The parts of a pod that request GPUs. Raises QuantityError for an amount of the wrong JSON type."""
    metadata, spec = pod.metadata or kube.ObjectMeta(), pod.spec or kube.PodSpec()
    return UnparsedRequest(
        namespace=metadata.namespace or "default",
        name=metadata.name or "",
        uid=metadata.uid or "",
        priority=pod_priority(pod),
        annotations=strings(metadata.annotations),
        containers=[
            _container_request(container, role, resources) for container, role in all_containers(spec)
        ],
        soft_preferences=has_soft_preferences(spec),
        cpu_milli=pod_cpu_milli(spec),
    )


def pod_request(
    pod: kube.Pod, resources: ResourceNames, claims: ClaimLookup | None = None
) -> GpuRequest | InvalidRequest:
    """A pod's GPU request, as one value, with what it asks through `claims` where these are known. Raises
    QuantityError for an amount of the wrong JSON type."""
    request = parse_request(unparsed_request(pod, resources), resources)
    asked = claim_request(pod, claims)
    if not asked.units or isinstance(request, InvalidRequest):
        return request
    return replace(request, units=(*request.units, *asked.units))


def _container_request(
    container: kube.Container, role: ContainerRole, resources: ResourceNames
) -> ContainerRequest:
    asked = container.resources or _NOTHING
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for amounts, read in ((asked.requests, requests), (asked.limits, limits)):
        for name, raw in (amounts or {}).items():
            # Kubernetes' own resources have no domain; most are of this kind, so they are checked first.
            if "/" in name and resources.is_gpu(name):
                try:
                    read[name] = quantity_text(raw)
                except QuantityError as error:
                    where = f"container {(container.name or '')[:80]!r}: {name[:SHOWN_CHARS]}"
                    raise QuantityError(f"{where}: {error}") from None
    return ContainerRequest(container.name or "", role, requests, limits)


def asks_gpu(spec: kube.PodSpec, resources: ResourceNames) -> bool:
    """Whether any container names a configured resource: a quick test for the many pods that do not."""
    return any(
        "/" in name and resources.is_gpu(name)
        for container, _ in all_containers(spec)
        if container.resources is not None
        for amounts in (container.resources.limits, container.resources.requests)
        for name in amounts or ()
    )


def resource_names(spec: kube.PodSpec) -> list[str]:
    """Every resource that a container requests, each once, by name."""
    asked = [container.resources for container, _ in all_containers(spec) if container.resources is not None]
    return sorted({name for each in asked for name in (*(each.requests or ()), *(each.limits or ()))})


def has_soft_preferences(spec: kube.PodSpec) -> bool:
    """True if the pod has soft in-tree preferences: preferred affinities, ScheduleAnyway spread."""
    affinity = spec.affinity or kube.Affinity()
    kinds = (affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity)
    return any(kind is not None and kind.preferred for kind in kinds) or any(
        c.when_unsatisfiable == "ScheduleAnyway" for c in spec.topology_spread_constraints or ()
    )
