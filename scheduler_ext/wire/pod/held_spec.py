"""What a pod on a node holds while its requests are resized in place."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import msgspec
from msgspec import Raw

from scheduler_ext.core.request.quantity import QuantityError, parse_quantity
from scheduler_ext.wire import kube
from scheduler_ext.wire.kube import quantity_text

# The resources that can be resized in place.
_RESIZABLE = ("cpu", "memory")
_Containers = list[kube.Container | None] | None


def held_spec(pod: kube.Pod) -> kube.PodSpec:
    """The spec of a pod, with what it holds on its node as requests: for each container, and for the pod
    where its spec has requests of its own, the largest of what the spec asks, what the kubelet has allocated,
    and what is in effect; without what the spec asks if the node can never grant it. The spec itself without
    a node, or without a resize. Source: PodRequests with UseStatusResources of k8s.io/component-helpers
    (KEP-1287), as kube-scheduler counts pods on nodes. Since Kubernetes 1.37 it compares the sums over all
    containers, which are less where one container grows while another shrinks."""
    spec, status = pod.spec or kube.PodSpec(), pod.status
    if status is None or not spec.node_name:
        return spec
    infeasible = any(
        each.type == "PodResizePending" and each.reason == "Infeasible" for each in status.conditions or ()
    )
    known = {
        each.name: each
        for each in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        if each is not None and (each.resources is not None or each.allocated_resources)
    }
    containers = _held(spec.containers, known, infeasible)
    init_containers = _held(spec.init_containers, known, infeasible)
    of_pod = spec.resources
    if of_pod is not None:
        stated = [name for name in _RESIZABLE if name in {**(of_pod.requests or {}), **(of_pod.limits or {})}]
        of_pod = _in_effect(of_pod, status, infeasible, stated)
    if containers is spec.containers and init_containers is spec.init_containers and of_pod is spec.resources:
        return spec
    return msgspec.structs.replace(
        spec, containers=containers, init_containers=init_containers, resources=of_pod
    )


def _held(
    containers: _Containers, known: Mapping[str | None, kube.ContainerStatus], infeasible: bool
) -> _Containers:
    held: list[kube.Container | None] = []
    for each in containers or ():
        found = known.get(each.name) if each is not None else None
        if each is not None and found is not None:
            resources = _in_effect(each.resources, found, infeasible, _RESIZABLE)
            held.append(
                each if resources is each.resources else msgspec.structs.replace(each, resources=resources)
            )
        else:
            held.append(each)
    changed = any(one is not other for one, other in zip(held, containers or (), strict=True))
    return held if changed else containers


def _in_effect(
    asked: kube.ResourceRequirements | None,
    status: kube.ContainerStatus | kube.PodStatus,
    infeasible: bool,
    names: Sequence[str],
) -> kube.ResourceRequirements | None:
    """The requirements with the requests that are held; the same object if these are what the spec asks."""
    effective = status.resources.requests if status.resources is not None else None
    granted = [amounts for amounts in (status.allocated_resources, effective) if amounts]
    if not granted:
        return asked
    spec = asked or kube.ResourceRequirements()
    # As in the API server, a limit stands in for a request.
    wanted = {**(spec.limits or {}), **(spec.requests or {})}
    held = {}
    for name in names:
        own = wanted.get(name)
        found = [amounts[name] for amounts in granted if name in amounts]
        if own is not None and not infeasible:
            found.append(own)
        largest = _largest(found)
        if largest is None:
            # Asked, and never granted.
            largest = Raw(b'"0"') if own is not None and infeasible else own
        if largest is not None and (own is None or bytes(largest) != bytes(own)):
            held[name] = largest
    return msgspec.structs.replace(spec, requests={**(spec.requests or {}), **held}) if held else asked


def _largest(amounts: Iterable[Raw]) -> Raw | None:
    """The largest of these amounts, of equal ones the last; None without any. One that cannot be read is the
    largest, so that reading the amounts reports it."""
    by_text = {bytes(each): each for each in amounts}
    if len(by_text) < 2:
        return next(iter(by_text.values()), None)
    return max(reversed(by_text.values()), key=_amount)


def _amount(raw: Raw) -> tuple[bool, Fraction]:
    try:
        return False, parse_quantity(quantity_text(raw))
    except QuantityError:
        return True, Fraction(0)
