"""ResourceClaims, and the templates of claims."""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec import Raw

from scheduler_ext.core.dra.device import amounts
from scheduler_ext.core.dra.published import (
    TEMPLATE_PREFIX,
    Claim,
    ClaimedDevice,
    Constraint,
    DeviceId,
    DeviceRequirements,
    RequestedDevices,
)
from scheduler_ext.core.intree.affinity import Toleration
from scheduler_ext.wire import kube
from scheduler_ext.wire.dra.resource_api import SelectorObject, amount_text, expressions
from scheduler_ext.wire.kube import KubeStruct, strings

# The most devices of a claim (k8s.io/api/resource, AllocationResultsMaxSize).
_MOST_DEVICES: Final = 32
# Set by kube-scheduler on the claims that it makes for extended resources.
_EXTENDED_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"


class _DeviceToleration(KubeStruct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class _CapacityRequests(KubeStruct):
    requests: dict[str, Raw] | None = None


class _Request(KubeStruct):
    """`exactly` of a request, or one of its alternatives; in v1beta1 the request itself."""

    name: str | None = None
    device_class_name: str | None = None
    selectors: list[SelectorObject] | None = None
    allocation_mode: str | None = None
    count: int | None = None
    admin_access: bool | None = None
    tolerations: list[_DeviceToleration] | None = None
    capacity: _CapacityRequests | None = None


class _DeviceRequest(_Request):
    exactly: _Request | None = None
    first_available: list[_Request] | None = None


class _DeviceConstraint(KubeStruct):
    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class _DeviceClaim(KubeStruct):
    requests: list[_DeviceRequest] | None = None
    constraints: list[_DeviceConstraint] | None = None


class _ClaimSpec(KubeStruct):
    devices: _DeviceClaim | None = None


class _Result(KubeStruct):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    admin_access: bool | None = None
    consumed_capacity: dict[str, Raw] | None = None


class _Results(KubeStruct):
    results: list[_Result] | None = None


class _AllocationResult(KubeStruct):
    devices: _Results | None = None
    node_selector: kube.NodeSelector | None = None


class _Consumer(KubeStruct):
    resource: str | None = None
    name: str | None = None
    uid: str | None = None


class _ClaimStatus(KubeStruct):
    allocation: _AllocationResult | None = None
    reserved_for: list[_Consumer] | None = None


class ClaimObject(KubeStruct):
    metadata: kube.ObjectMeta | None = None
    spec: _ClaimSpec | None = None
    status: _ClaimStatus | None = None


class _TemplateSpec(KubeStruct):
    spec: _ClaimSpec | None = None


class TemplateObject(KubeStruct):
    metadata: kube.ObjectMeta | None = None
    spec: _TemplateSpec | None = None


def read_claim(item: ClaimObject) -> Claim:
    """A ResourceClaim."""
    metadata, status = item.metadata or kube.ObjectMeta(), item.status or _ClaimStatus()
    asked = (item.spec or _ClaimSpec()).devices or _DeviceClaim()
    allocation = status.allocation
    requests, missing = _requests(asked)
    return Claim(
        uid=metadata.uid or "",
        namespace=metadata.namespace or "default",
        name=metadata.name or "",
        requests=requests,
        devices=_claimed(allocation) if allocation is not None else None,
        pods=tuple(
            (each.uid or "", each.name or "") for each in status.reserved_for or () if each.resource == "pods"
        ),
        node=_only_node(allocation.node_selector) if allocation is not None else None,
        extended=strings(metadata.annotations).get(_EXTENDED_ANNOTATION) == "true",
        not_modelled=missing,
        charged=_charged(asked),
        constraints=_constraints(asked),
    )


def read_template(item: TemplateObject) -> Claim:
    """The claims that a ResourceClaimTemplate would make, as one that waits under the template's key."""
    metadata, spec = item.metadata or kube.ObjectMeta(), item.spec or _TemplateSpec()
    asked = (spec.spec or _ClaimSpec()).devices or _DeviceClaim()
    requests, missing = _requests(asked)
    namespace, name = metadata.namespace or "default", TEMPLATE_PREFIX + (metadata.name or "")
    return Claim(
        uid=f"{namespace}/{name}",
        namespace=namespace,
        name=name,
        requests=requests,
        not_modelled=missing,
        charged=_charged(asked),
        constraints=_constraints(asked),
    )


def _constraints(asked: _DeviceClaim) -> tuple[Constraint, ...]:
    return tuple(
        Constraint(attribute, tuple(each.requests or ()), distinct=each.match_attribute is None)
        for each in asked.constraints or ()
        if (attribute := each.match_attribute or each.distinct_attribute)
    )


def _requests(asked: _DeviceClaim) -> tuple[tuple[RequestedDevices, ...], tuple[str, ...]]:
    """What the requests of a claim require of each device, and the features that are not modelled."""
    requests, missing = [], dict[str, None]()
    if asked.constraints:
        missing["constraints between devices"] = None
    for each in asked.requests or ():
        if each.first_available:
            missing["firstAvailable"] = None
            requests += [
                RequestedDevices(
                    _ask(one),
                    0,
                    every=one.allocation_mode == "All",
                    choice=max(1, one.count or 1),
                    name=f"{each.name or ''}/{one.name or ''}",
                )
                for one in each.first_available
            ]
            continue
        exactly = each.exactly or (each if each.device_class_name else None)
        if exactly is None:
            continue
        every = exactly.allocation_mode == "All"
        if every:
            missing["allocationMode: All"] = None
        count = _count(exactly)
        admin = bool(exactly.admin_access)
        requests.append(
            RequestedDevices(_ask(exactly), 0 if every else count, every, admin=admin, name=each.name or "")
        )
    return tuple(requests), tuple(missing)


def _count(request: _Request) -> int:
    return 1 if request.count is None else max(0, request.count)


def _charged(asked: _DeviceClaim) -> tuple[tuple[str, int], ...]:
    """The devices of each class in a quota: of alternatives the largest number of each class, and with admin
    access the same (k8s.io/kubernetes, pkg/quota/v1/evaluator/core, resource_claims.go)."""
    charged: Counter[str] = Counter()
    for each in asked.requests or ():
        most: dict[str, int] = {}
        for one in each.first_available or [each.exactly or each]:
            name = one.device_class_name or ""
            count = _MOST_DEVICES if one.allocation_mode == "All" else _count(one)
            most[name] = max(most.get(name, 0), count)
        charged.update(most)
    return tuple(sorted(charged.items()))


def _ask(request: _Request) -> DeviceRequirements:
    capacity = (request.capacity.requests if request.capacity is not None else None) or {}
    return DeviceRequirements(
        request.device_class_name or "",
        expressions(request.selectors),
        tuple(
            Toleration(t.key or "", t.operator or "", t.value or "", t.effect or "")
            for t in request.tolerations or ()
        ),
        tuple(sorted((name, text) for name, raw in capacity.items() if (text := amount_text(raw)))),
    )


def _claimed(allocation: _AllocationResult) -> tuple[ClaimedDevice, ...]:
    results = (allocation.devices.results if allocation.devices is not None else None) or ()
    return tuple(
        ClaimedDevice(
            DeviceId(each.driver or "", each.pool or "", each.device or ""),
            amounts({name: amount_text(raw) or "0" for name, raw in (each.consumed_capacity or {}).items()}),
        )
        for each in results
        if not each.admin_access
    )


def _only_node(selector: kube.NodeSelector | None) -> str | None:
    """The node that an allocation names: kube-scheduler writes one field for devices of a node."""
    for term in (selector.node_selector_terms if selector is not None else None) or ():
        for each in term.match_fields or ():
            values = each.values or []
            if each.key == "metadata.name" and each.operator == "In" and len(values) == 1:
                return values[0]
    return None
