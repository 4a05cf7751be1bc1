"""Resource requests of a pod, and which of them a node cannot meet (kube-scheduler's NodeResourcesFit)."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Final

# Of the resources that stand for the devices of a DeviceClass (ResourceDeviceClassPrefix of
# k8s.io/api/resource/v1).
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"

_CPU: Final = "cpu"
_PODS: Final = "pods"
_BYTE_RESOURCES: Final = ("memory", "ephemeral-storage")
_POD_LEVEL_RESOURCES: Final = (_CPU, "memory")
_HUGEPAGES: Final = "hugepages-"
_BINARY_UNITS: Final = (("Gi", 2**30), ("Mi", 2**20))
_ZERO: Final = Fraction(0)

Requests = Mapping[str, Fraction]


def effective_requests(
    containers: Sequence[Requests],
    init_containers: Sequence[tuple[Requests, bool]],
    overhead: Requests,
    *,
    pod_level: Requests | None = None,
) -> dict[str, Fraction]:
    """Compute what a pod occupies on a node, by k8s.io/component-helpers/resource.PodRequests: per resource
    the peak over its start-up phases, plus overhead. init_containers are (requests, is it a sidecar) in the
    order of the pod. An init container runs beside the sidecars before it; all sidecars run beside the app
    containers. Pod-level requests (spec.resources) replace the result for cpu, memory and huge pages. Values
    are in cores, bytes, devices."""
    peak: Requests = {}
    sidecars: Requests = {}
    for requests, is_sidecar in init_containers:
        if is_sidecar:
            sidecars = _sum(sidecars, requests)
        else:
            peak = _largest(peak, _sum(sidecars, requests))
    peak = _largest(peak, _sum(sidecars, *containers)) | {
        resource: amount
        for resource, amount in (pod_level or {}).items()
        if resource in _POD_LEVEL_RESOURCES or resource.startswith(_HUGEPAGES)
    }
    return _sum(peak, overhead)


def _sum(*phases: Requests) -> dict[str, Fraction]:
    some = [phase for phase in phases if phase]
    if len(some) < 2:
        # Most pods have one container, and adding fractions takes long.
        return dict(*some)
    return {
        resource: sum((phase.get(resource, _ZERO) for phase in phases), _ZERO)
        for resource in dict.fromkeys(chain.from_iterable(phases))
    }


def _largest(one: Requests, other: Requests) -> dict[str, Fraction]:
    if not one:
        return dict(other)
    more = {resource: max(one.get(resource, amount), amount) for resource, amount in other.items()}
    return {**one, **more}


def in_order(resources: Collection[str]) -> list[str]:
    """The resources of a node that kube-scheduler counts, in its order, extended ones by name."""
    # Those that are counted besides the fixed ones: extended resources, huge pages, volumes.
    named = ("attachable-volumes-", _HUGEPAGES)
    fixed = (_PODS, _CPU, *_BYTE_RESOURCES)
    return [
        *(name for name in fixed if name in resources),
        *sorted(name for name in resources if "/" in name or name.startswith(named)),
    ]


def shortage_text(resource: str) -> str:
    """kube-scheduler's reason for a node with too little of a resource."""
    return "Too many pods" if resource == _PODS else f"Insufficient {resource}"


@dataclass(frozen=True, slots=True)
class Shortage:
    """One resource a node has too little of; needed, free and allocatable are in the resource's own unit."""

    resource: str
    needed: Fraction
    free: Fraction
    allocatable: Fraction

    @property
    def reason(self) -> str:
        return shortage_text(self.resource)

    @property
    def is_by_claim(self) -> bool:
        """Whether the resource stands for devices that claims hold."""
        return self.resource.startswith(DEVICE_CLASS_PREFIX)

    @property
    def is_resolvable(self) -> bool:
        """Whether removing pods could help: an empty node would have enough, or pods are the shortage.
        kube-scheduler tries preemption for "Too many pods" whatever the node's limit is."""
        return self.resource == _PODS or self.needed <= self.allocatable

    @property
    def needed_text(self) -> str:
        """Return the needed amount as a Kubernetes quantity, rounded up to what people read."""
        return amount_text(self.resource, self.needed, math.ceil)

    @property
    def free_text(self) -> str:
        """Return the free amount as a Kubernetes quantity, rounded down; an overcommitted node has 0."""
        return amount_text(self.resource, max(self.free, _ZERO), math.floor)


def shortages(
    requests: Requests,
    *,
    allocatable: Requests,
    requested: Requests,
    pod_count: int,
    ignore_resources: frozenset[str],
) -> Iterator[Shortage]:
    """Yield what the node lacks for these requests, in kube-scheduler's order, extended resources by name. A
    resource the node does not list is 0 there, and so is its limit of pods; how many devices of a DeviceClass
    it has is then unknown. A request of 0 is always met, even if pods already there ask for more than the
    node has."""
    pod_limit = allocatable.get(_PODS, _ZERO)
    if _PODS not in ignore_resources and pod_count + 1 > pod_limit:
        yield Shortage(_PODS, Fraction(1), pod_limit - pod_count, pod_limit)
    for resource in in_order(requests):
        needed = requests.get(resource, _ZERO)
        unknown = resource.startswith(DEVICE_CLASS_PREFIX) and resource not in allocatable
        if not needed or unknown or resource in ignore_resources:
            continue
        limit = allocatable.get(resource, _ZERO)
        free = limit - requested.get(resource, _ZERO)
        if needed > max(free, _ZERO):
            yield Shortage(resource, needed, free, limit)


def amount_text(resource: str, amount: Fraction, rounded: Callable[[Fraction], int]) -> str:
    """Write an amount so that a needed one, rounded up, never reads like a smaller free one, rounded down."""
    if resource in _BYTE_RESOURCES or resource.startswith(_HUGEPAGES):
        for unit, size in _BINARY_UNITS:
            if amount % size == 0:
                return f"{amount // size}{unit}" if amount else "0"
        return f"{rounded(amount / 2**20)}Mi"
    if resource == _CPU and amount.denominator != 1:
        return f"{rounded(amount * 1000)}m"
    return str(rounded(amount))
