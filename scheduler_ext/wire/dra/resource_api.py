"""DeviceClasses, ResourceSlices and ResourceClaims of `resource.k8s.io/v1`, as typed objects and core values.
An unreadable amount of a device counts as absent, because one device must not hide a cluster's others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from msgspec import Raw, field

from scheduler_ext.core.dra.consumable import RequestPolicy
from scheduler_ext.core.dra.device import amounts
from scheduler_ext.core.dra.device_taints import DeviceTaint
from scheduler_ext.core.dra.published import (
    TEMPLATE_PREFIX,
    Attribute,
    Claim,
    ClaimedDevice,
    Consumption,
    DeviceAsk,
    DeviceClass,
    DeviceFacts,
    DeviceId,
    PublishedDevice,
    Requested,
    ResourceSlice,
    TaintRule,
)
from scheduler_ext.core.dra.semantic_version import parse_version
from scheduler_ext.core.intree.affinity import Taint, Toleration
from scheduler_ext.core.request.quantity import QuantityError, parse_quantity
from scheduler_ext.wire import kube
from scheduler_ext.wire.decoding import decode_answer
from scheduler_ext.wire.kube import KubeStruct, quantity_text, strings
from scheduler_ext.wire.times import seconds

GROUP: Final = "resource.k8s.io"
API_VERSION: Final = "resource.k8s.io/v1"
CLASSES: Final = "deviceclasses"
SLICES: Final = "resourceslices"
CLAIMS: Final = "resourceclaims"
RULES: Final = "devicetaintrules"
# The versions that may have DeviceTaintRules, the newest first: v1 from 1.37 on, v1beta2 before.
RULE_VERSIONS: Final = ("v1", "v1beta2")
# On the rules of this product.
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_MANAGER: Final = "gpu-scheduler-extender"
# Set by kube-scheduler on the claims that it makes for extended resources.
_EXTENDED_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"


class _Cel(KubeStruct):
    expression: str | None = None


class _Selector(KubeStruct):
    cel: _Cel | None = None


class _DeviceClassSpec(KubeStruct):
    selectors: list[_Selector] | None = None
    extended_resource_name: str | None = None


class _Resource(KubeStruct):
    name: str | None = None


class _Resources(KubeStruct):
    resources: list[_Resource] | None = None


def read_resources(body: bytes) -> set[str]:
    """The names of the resources in an answer to discovery, a list of API resources. Raises ClusterError."""
    return {each.name or "" for each in decode_answer(_Resources, body).resources or ()}


class ClassObject(KubeStruct):
    metadata: kube.ObjectMeta | None = None
    spec: _DeviceClassSpec | None = None


class _Pool(KubeStruct):
    name: str | None = None
    generation: int | None = None
    resource_slice_count: int | None = None


class _AttributeValue(KubeStruct):
    number: int | None = field(default=None, name="int")
    truth: bool | None = field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class _Value(KubeStruct):
    value: Raw = Raw(b"null")


class _ValidRange(KubeStruct):
    min: Raw | None = None
    max: Raw | None = None
    step: Raw | None = None


class _RequestPolicy(KubeStruct):
    default: Raw | None = None
    valid_values: list[Raw] | None = None
    valid_range: _ValidRange | None = None


class _Capacity(_Value):
    request_policy: _RequestPolicy | None = None


class _ConsumedCounters(KubeStruct):
    counter_set: str | None = None
    counters: dict[str, _Value] | None = None


class _DeviceTaint(KubeStruct):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class _DeviceObject(KubeStruct):
    name: str | None = None
    attributes: dict[str, _AttributeValue] | None = None
    capacity: dict[str, _Capacity] | None = None
    consumes_counters: list[_ConsumedCounters] | None = None
    taints: list[_DeviceTaint] | None = None
    allow_multiple_allocations: bool | None = None


class _CounterSet(KubeStruct):
    name: str | None = None
    counters: dict[str, _Value] | None = None


class _SliceSpec(KubeStruct):
    driver: str | None = None
    pool: _Pool | None = None
    node_name: str | None = None
    devices: list[_DeviceObject] | None = None
    shared_counters: list[_CounterSet] | None = None


class SliceObject(KubeStruct):
    metadata: kube.ObjectMeta | None = None
    spec: _SliceSpec | None = None


class _DeviceToleration(KubeStruct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class _CapacityRequests(KubeStruct):
    requests: dict[str, Raw] | None = None


class _TaintSelector(KubeStruct):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class _RuleSpec(KubeStruct):
    device_selector: _TaintSelector | None = None
    taint: _DeviceTaint | None = None


class RuleObject(KubeStruct):
    metadata: kube.ObjectMeta | None = None
    spec: _RuleSpec | None = None


class _Request(KubeStruct):
    """`exactly` of a request, or one of its alternatives."""

    name: str | None = None
    device_class_name: str | None = None
    selectors: list[_Selector] | None = None
    allocation_mode: str | None = None
    count: int | None = None
    admin_access: bool | None = None
    tolerations: list[_DeviceToleration] | None = None
    capacity: _CapacityRequests | None = None


class _DeviceRequest(KubeStruct):
    name: str | None = None
    exactly: _Request | None = None
    first_available: list[_Request] | None = None


class _DeviceClaim(KubeStruct):
    requests: list[_DeviceRequest] | None = None
    constraints: list[Raw] | None = None


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


class _Allocation(KubeStruct):
    devices: _Results | None = None
    node_selector: kube.NodeSelector | None = None


class _Consumer(KubeStruct):
    resource: str | None = None
    name: str | None = None
    uid: str | None = None


class _ClaimStatus(KubeStruct):
    allocation: _Allocation | None = None
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


def read_class(item: ClassObject) -> DeviceClass:
    """A DeviceClass."""
    metadata, spec = item.metadata or kube.ObjectMeta(), item.spec or _DeviceClassSpec()
    return DeviceClass(
        name=metadata.name or "",
        expressions=_expressions(spec.selectors),
        extended_resource=spec.extended_resource_name or None,
        created_at=seconds(metadata.creation_timestamp) or 0.0,
    )


def read_slice(item: SliceObject) -> ResourceSlice:
    """A ResourceSlice."""
    metadata, spec = item.metadata or kube.ObjectMeta(), item.spec or _SliceSpec()
    pool, driver = spec.pool or _Pool(), spec.driver or ""
    return ResourceSlice(
        name=metadata.name or "",
        driver=driver,
        pool=pool.name or "",
        generation=pool.generation or 0,
        slices=pool.resource_slice_count or 0,
        node=spec.node_name or None,
        devices=tuple(_device(driver, each) for each in spec.devices or ()),
        counters={
            (counter_set.name or "", counter): amount
            for counter_set in spec.shared_counters or ()
            for counter, amount in _counters(counter_set.counters)
        },
    )


def _device(driver: str, device: _DeviceObject) -> PublishedDevice:
    return PublishedDevice(
        name=device.name or "",
        facts=DeviceFacts(
            driver,
            dict(_attributes(device.attributes)),
            {name: text for name, each in (device.capacity or {}).items() if (text := _text(each.value))},
            bool(device.allow_multiple_allocations),
        ),
        consumes=tuple(
            Consumption(each.counter_set or "", counter, amount)
            for each in device.consumes_counters or ()
            for counter, amount in _counters(each.counters)
        ),
        taints=tuple(map(_taint, device.taints or ())),
        policies={
            name.rpartition("/")[2]: _policy(each.request_policy)
            for name, each in (device.capacity or {}).items()
            if each.request_policy is not None
        },
    )


def _policy(policy: _RequestPolicy) -> RequestPolicy:
    valid = policy.valid_range or _ValidRange()
    values = (_amount(each) for each in policy.valid_values or ())
    return RequestPolicy(
        _amount(policy.default),
        _amount(valid.min),
        _amount(valid.max),
        _amount(valid.step),
        tuple(sorted(each for each in values if each is not None)),
    )


def _amount(raw: Raw | None) -> int | None:
    """A quantity as a whole number; None if it is absent or cannot be read."""
    text = _text(raw) if raw is not None else None
    return amounts({"": text}).get("") if text else None


def _taint(taint: _DeviceTaint) -> Taint:
    return Taint(taint.key or "", taint.value or "", taint.effect or "")


def _attributes(values: dict[str, _AttributeValue] | None) -> Iterator[tuple[str, Attribute]]:
    for name, each in (values or {}).items():
        if each.version is not None:
            with suppress(ValueError):
                yield name, parse_version(each.version)
        else:
            value = next((v for v in (each.string, each.truth, each.number) if v is not None), None)
            if value is not None:
                yield name, value


def _counters(values: dict[str, _Value] | None) -> Iterator[tuple[str, int]]:
    for name, each in (values or {}).items():
        with suppress(QuantityError):
            yield name, max(0, int(parse_quantity(_text(each.value) or "")))


def _text(raw: Raw) -> str | None:
    """A quantity as text; None for another type."""
    with suppress(QuantityError):
        return quantity_text(raw)
    return None


def read_rule(item: RuleObject) -> TaintRule:
    """A DeviceTaintRule; without a selector it is about no device."""
    metadata, spec = item.metadata or kube.ObjectMeta(), item.spec or _RuleSpec()
    selector = spec.device_selector or _TaintSelector()
    return TaintRule(
        name=metadata.name or "",
        taint=_taint(spec.taint or _DeviceTaint()),
        driver=selector.driver,
        pool=selector.pool,
        device=selector.device,
        is_empty=spec.device_selector is None,
        uid=metadata.uid or "",
        ours=strings(metadata.labels).get(_MANAGED_BY) == _MANAGER,
    )


def taint_rule_body(path: str, taint: DeviceTaint) -> dict[str, Any]:
    """The DeviceTaintRule of a taint, to be created at this path. It evicts nothing."""
    driver, pool, device = taint.device
    return {
        "apiVersion": f"{GROUP}/{path.split('/')[-2]}",
        "kind": "DeviceTaintRule",
        "metadata": {"name": taint.rule, "labels": {_MANAGED_BY: _MANAGER}},
        "spec": {
            "deviceSelector": {"driver": driver, "pool": pool, "device": device},
            "taint": {"key": taint.key, "effect": "NoSchedule"},
        },
    }


def _expressions(selectors: Iterable[_Selector] | None) -> tuple[str, ...]:
    return tuple((each.cel or _Cel()).expression or "" for each in selectors or ())


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
    )


def _requests(asked: _DeviceClaim) -> tuple[tuple[Requested, ...], tuple[str, ...]]:
    """What the requests of a claim require of each device, and the features that are not modelled."""
    requests, missing = [], dict[str, None]()
    if asked.constraints:
        missing["constraints between devices"] = None
    for each in asked.requests or ():
        if each.first_available:
            missing["firstAvailable"] = None
            requests += [Requested(_ask(one), 0) for one in each.first_available]
        elif each.exactly is not None and each.exactly.admin_access:
            missing["adminAccess"] = None
        elif each.exactly is not None:
            every = each.exactly.allocation_mode == "All"
            if every:
                missing["allocationMode: All"] = None
            count = 1 if each.exactly.count is None else each.exactly.count
            requests.append(Requested(_ask(each.exactly), 0 if every else max(0, count)))
    return tuple(requests), tuple(missing)


def _ask(request: _Request) -> DeviceAsk:
    capacity = (request.capacity.requests if request.capacity is not None else None) or {}
    return DeviceAsk(
        request.device_class_name or "",
        _expressions(request.selectors),
        tuple(
            Toleration(t.key or "", t.operator or "", t.value or "", t.effect or "")
            for t in request.tolerations or ()
        ),
        tuple(sorted((name, text) for name, raw in capacity.items() if (text := _text(raw)))),
    )


def _claimed(allocation: _Allocation) -> tuple[ClaimedDevice, ...]:
    results = (allocation.devices.results if allocation.devices is not None else None) or ()
    return tuple(
        ClaimedDevice(
            DeviceId(each.driver or "", each.pool or "", each.device or ""),
            amounts({name: _text(raw) or "0" for name, raw in (each.consumed_capacity or {}).items()}),
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
