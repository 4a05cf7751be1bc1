"""ResourceSlices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from msgspec import Raw, field

from scheduler_ext.core.dra.consumable import RequestPolicy
from scheduler_ext.core.dra.device import amounts
from scheduler_ext.core.dra.published import (
    Attribute,
    Consumption,
    DeviceFacts,
    PublishedDevice,
    ResourceSlice,
)
from scheduler_ext.core.dra.semantic_version import parse_version
from scheduler_ext.core.intree.affinity import NodeSelectorTerm
from scheduler_ext.wire import kube
from scheduler_ext.wire.dra.resource_api import DeviceTaintObject, amount_text, taint_of
from scheduler_ext.wire.kube import KubeStruct
from scheduler_ext.wire.selectors import requirements

_NULL = Raw(b"null")


class _ResourcePool(KubeStruct):
    name: str | None = None
    generation: int | None = None
    resource_slice_count: int | None = None


class _AttributeValue(KubeStruct):
    number: int | None = field(default=None, name="int")
    truth: bool | None = field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    # Several values, of one type.
    numbers: list[int] | None = field(default=None, name="ints")
    truths: list[bool] | None = field(default=None, name="bools")
    strings: list[str] | None = None
    versions: list[str] | None = None


class _Quantity(KubeStruct):
    value: Raw = _NULL


class _ValidRange(KubeStruct):
    # A union of Raw and None reads null alone.
    min: Raw = _NULL
    max: Raw = _NULL
    step: Raw = _NULL


class _CapacityRequestPolicy(KubeStruct):
    default: Raw = _NULL
    valid_values: list[Raw] | None = None
    valid_range: _ValidRange | None = None


class _Capacity(_Quantity):
    request_policy: _CapacityRequestPolicy | None = None


class _ConsumedCounters(KubeStruct):
    counter_set: str | None = None
    counters: dict[str, _Quantity] | None = None


class _Reach(KubeStruct):
    """The nodes that reach devices: of a slice, or with perDeviceNodeSelection of each device."""

    node_name: str | None = None
    node_selector: kube.NodeSelector | None = None
    all_nodes: bool | None = None


class _DeviceFields(_Reach):
    attributes: dict[str, _AttributeValue] | None = None
    capacity: dict[str, _Capacity] | None = None
    consumes_counters: list[_ConsumedCounters] | None = None
    taints: list[DeviceTaintObject] | None = None
    allow_multiple_allocations: bool | None = None


class _DeviceObject(_DeviceFields):
    """A device; in v1beta1 its fields are below `basic`."""

    name: str | None = None
    basic: _DeviceFields | None = None


class _CounterSet(KubeStruct):
    name: str | None = None
    counters: dict[str, _Quantity] | None = None


class _SliceSpec(_Reach):
    driver: str | None = None
    pool: _ResourcePool | None = None
    per_device_node_selection: bool | None = None
    devices: list[_DeviceObject] | None = None
    shared_counters: list[_CounterSet] | None = None


class SliceObject(KubeStruct):
    metadata: kube.ObjectMeta | None = None
    spec: _SliceSpec | None = None


def read_slice(item: SliceObject) -> ResourceSlice:
    """A ResourceSlice."""
    metadata, spec = item.metadata or kube.ObjectMeta(), item.spec or _SliceSpec()
    pool, driver = spec.pool or _ResourcePool(), spec.driver or ""
    return ResourceSlice(
        name=metadata.name or "",
        driver=driver,
        pool=pool.name or "",
        generation=pool.generation or 0,
        slices=pool.resource_slice_count or 0,
        node=spec.node_name or None,
        devices=tuple(_device(driver, each, spec) for each in spec.devices or ()),
        counters={
            (counter_set.name or "", counter): amount
            for counter_set in spec.shared_counters or ()
            for counter, amount in _counters(counter_set.counters)
        },
    )


def _reach(part: _Reach) -> tuple[NodeSelectorTerm, ...] | None:
    """The terms of the nodes that reach devices; None for all nodes."""
    if part.node_name:
        return (NodeSelectorTerm.of_node(part.node_name),)
    if part.node_selector is None or part.all_nodes:
        return None
    return tuple(
        NodeSelectorTerm(requirements(term.match_expressions), requirements(term.match_fields))
        for term in part.node_selector.node_selector_terms or ()
    )


def _device(driver: str, item: _DeviceObject, spec: _SliceSpec) -> PublishedDevice:
    device = item.basic or item
    return PublishedDevice(
        name=item.name or "",
        facts=DeviceFacts(
            driver,
            dict(_attributes(device.attributes)),
            {
                name: text
                for name, each in (device.capacity or {}).items()
                if (text := amount_text(each.value))
            },
            bool(device.allow_multiple_allocations),
        ),
        consumes=tuple(
            Consumption(each.counter_set or "", counter, amount)
            for each in device.consumes_counters or ()
            for counter, amount in _counters(each.counters)
        ),
        taints=tuple(map(taint_of, device.taints or ())),
        policies={
            name.rpartition("/")[2]: _policy(each.request_policy)
            for name, each in (device.capacity or {}).items()
            if each.request_policy is not None
        },
        lists={
            name: values for name, each in (device.attributes or {}).items() if (values := _list_of(each))
        },
        reach=None if spec.node_name else _reach(device if spec.per_device_node_selection else spec),
    )


def _list_of(value: _AttributeValue) -> tuple[Attribute, ...]:
    """The values of an attribute that has several (ResourceSlices with the feature DRAListTypeAttributes)."""
    several: list[Attribute] = [*(value.numbers or ()), *(value.truths or ()), *(value.strings or ())]
    for text in value.versions or ():
        with suppress(ValueError):
            several.append(parse_version(text))
    return tuple(several)


def _policy(policy: _CapacityRequestPolicy) -> RequestPolicy:
    valid = policy.valid_range or _ValidRange()
    values = (_amount(each) for each in policy.valid_values or ())
    return RequestPolicy(
        _amount(policy.default),
        _amount(valid.min),
        _amount(valid.max),
        _amount(valid.step),
        tuple(sorted(each for each in values if each is not None)),
    )


def _amount(raw: Raw) -> int | None:
    """A quantity in thousandths; None if it is absent or cannot be read."""
    text = amount_text(raw) if raw != _NULL else None
    return amounts({"": text}).get("") if text else None


def _attributes(values: dict[str, _AttributeValue] | None) -> Iterator[tuple[str, Attribute]]:
    for name, each in (values or {}).items():
        if each.version is not None:
            with suppress(ValueError):
                yield name, parse_version(each.version)
        else:
            value = next((v for v in (each.string, each.truth, each.number) if v is not None), None)
            if value is not None:
                yield name, value


def _counters(values: dict[str, _Quantity] | None) -> Iterator[tuple[str, int]]:
    for name, each in (values or {}).items():
        if (amount := _amount(each.value)) is not None:
            yield name, max(0, amount)
