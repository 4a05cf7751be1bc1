"""Another node of the same kind, as an autoscaler would add it: the labels and the hardware of a node, with
healthy GPUs, a fresh report and everything that its device plugin registers, and without pods."""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from scheduler_ext.core.dra.device import NodeDevices
from scheduler_ext.core.gpu.gpu import Device, Memory, Report
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX
from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.core.node.estimate import MAX_COUNT, Estimate
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.promisable import advertised_mib
from scheduler_ext.core.node.state import resolve
from scheduler_ext.core.request.resource_names import ResourceNames, vendor_of

# In place of a value that no source states: no pod can ask for more.
_ANY_VERSION = (999,)
_ANY_CAPABILITY = (999, 0)
_ANY_MIB = 2**24
# The most GPUs of one node. More would only say that no node is that large.
_ANY_COUNT = 16
_UNNAMED = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class AsNew:
    """What is known of a new node of a kind. `least` has only what its sources state; `most` also has all
    that they leave open; None if nothing is known. `any_model`: no source names the model of some GPU.
    `uncut`: the model of GPUs whose MIG layout no source states yet."""

    least: NodeInfo | None
    most: NodeInfo | None
    any_model: bool = False
    uncut: GpuModel | None = None


_DEVICE = attrgetter(
    "vendor",
    "product",
    "model",
    "healthy",
    "compute_capability",
    "memory.total_mib",
    "memory.reserved_mib",
    "memory.stated",
    "mig.enabled",
    "mig.creatable",
    "mig.geometry",
)
_INSTANCE = attrgetter("profile", "start", "size", "offered")
_REPORT = attrgetter(
    "cuda_version", "mig_strategy", "sharing_strategy", "replicas", "own_replicas", "from_slices"
)
_NODE = attrgetter(
    "estimate", "share_node", "spot", "value", "cpu_milli", "changing", "one_replica", "fraction"
)


def kind_key(info: NodeInfo) -> Hashable | None:
    """Equal for nodes whose new nodes have equal states, in a tenth of the time that computing these takes;
    None where only computing them shows it."""
    if info.dra is not None:
        return None
    report = info.report
    devices = tuple((_DEVICE(device), tuple(map(_INSTANCE, device.mig.instances))) for device in info.devices)
    return (
        _NODE(info),
        _amounts(info.allocatable),
        _amounts(info.capacity),
        _REPORT(report) if report is not None else info.freshness,
        devices,
    )


def _amounts(amounts: Mapping[str, int] | None) -> Hashable:
    return tuple(sorted(amounts.items())) if amounts is not None else None


def as_new(info: NodeInfo, resources: ResourceNames, headroom_percent: int) -> AsNew:
    """A new node like this one."""
    empty = replace(
        info,
        freshness="Fresh",
        pods=(),
        assumed=frozenset(),
        nominated=(),
        planned=(),
        claims=(),
        dra=_untainted(info.dra) if info.dra is not None else None,
        cpu_elsewhere_milli=0,
        by_allocatable=False,
        changing=False,
        allocatable=_registered(info),
    )
    if info.report is not None:
        reported = _reported(empty, info.report, resources, headroom_percent)
        # While the layout of a node is being changed, its instances are not those of the next node.
        in_flux = info.changing and any(device.mig.enabled for device in info.devices)
        return replace(reported, least=None) if in_flux else reported
    if info.estimate is not None:
        return _estimated(empty, info.estimate)
    # A Node object shows that there is no GPU, unless an agent was there once.
    known = info.allocatable is not None and info.freshness == "Fresh"
    return AsNew(empty, empty) if known else AsNew(None, None)


def as_template(info: NodeInfo, resources: ResourceNames) -> NodeInfo:
    """A node that does not exist yet, whose labels and amounts are what will be known of it: with them it
    takes whole GPUs, MIG instances and memory shares, as the reported node would when it is empty."""
    estimate = info.estimate
    if estimate is None or not info.share_node:
        return replace(info, by_allocatable=estimate is not None)
    if not estimate.memory_mib:
        return info
    # As few GPUs as can have the advertised memory: the headroom of all together is rarely one GPU.
    advertised = (info.allocatable or {}).get(resources.share, 0)
    count = estimate.count or min(MAX_COUNT, -(-advertised // estimate.memory_mib))
    return replace(info, report=_as_report(replace(estimate, count=count)), estimate=None)


def _registered(info: NodeInfo) -> dict[str, int] | None:
    """The allocatable of a node whose GPUs are all healthy: the kubelet keeps sick ones in the capacity."""
    if info.allocatable is None:
        return None
    capacity = info.capacity or {}
    return {
        name: max(info.allocatable.get(name, 0), capacity.get(name, 0))
        for name in (*info.allocatable, *(name for name in capacity if name not in info.allocatable))
    }


def _with_withdrawn(
    info: NodeInfo, sick: frozenset[str], resources: ResourceNames, headroom_percent: int
) -> Mapping[str, int] | None:
    """The allocatable of a new node, where a device plugin may have withdrawn the `sick` GPUs, also from the
    capacity after a restart: with their units, but no more than all GPUs have."""
    if not sick or info.allocatable is None:
        return info.allocatable
    everything, withdrawn = Counter[str](), Counter[str]()
    node = resolve(replace(info, allocatable=None), resources, headroom_percent)
    for uuid, slot in node.gpus:
        for unit in slot.units:
            everything[unit.resource] += unit.free
            withdrawn[unit.resource] += unit.free if uuid in sick else 0
    return {
        name: max(amount, min(amount + withdrawn[name], everything[name]))
        for name, amount in info.allocatable.items()
    }


def _untainted(devices: NodeDevices) -> NodeDevices:
    return replace(devices, devices=tuple(replace(each, taints=()) for each in devices.devices))


def _reported(info: NodeInfo, report: Report, resources: ResourceNames, headroom_percent: int) -> AsNew:
    devices = tuple(_idle(device) for device in report.devices)
    least = replace(info, report=replace(report, devices=devices, cordoned_strangers=()), estimate=None)
    sick = frozenset(device.uuid for device in report.devices if not device.healthy)
    least = info = replace(least, allocatable=_with_withdrawn(least, sick, resources, headroom_percent))
    mib = advertised_mib(least, resources, headroom_percent)
    if mib is not None and least.allocatable is not None:
        least = replace(least, allocatable={**least.allocatable, resources.share: mib})
    with_all = replace(
        report,
        devices=tuple(_with_capability(device) for device in devices),
        cordoned_strangers=(),
        cuda_version=report.cuda_version or _ANY_VERSION,
    )
    most = replace(least, report=with_all)
    vendors = {device.vendor for device in devices}
    if mib is None and not _hands_out(info, vendors):
        most = replace(most, allocatable=None)
    return AsNew(least, most, any(device.model.name == _UNNAMED for device in devices))


def _hands_out(info: NodeInfo, vendors: Collection[str]) -> bool:
    """Whether something hands out GPUs of these vendors there. A device plugin that has yet to start leaves
    open what it will offer."""
    if info.allocatable is None or (info.dra is not None and info.dra.devices):
        return True
    return any(count > 0 and vendor_of(name) in (None, *vendors) for name, count in info.allocatable.items())


def _instances(info: NodeInfo) -> int:
    """The MIG instances that a device plugin hands out."""
    return sum(count for name, count in (info.allocatable or {}).items() if name.startswith(MIG_PREFIX))


def _idle(device: Device) -> Device:
    """The GPU of a new node."""
    memory = replace(device.memory, used_mib=0, unaccounted_mib=0)
    instances = tuple(replace(each, holder=None) for each in device.mig.instances)
    return replace(
        device,
        memory=memory,
        healthy=True,
        health_reason="",
        cordoned=False,
        holders=(),
        mig=replace(device.mig, instances=instances),
    )


def _with_capability(device: Device) -> Device:
    return replace(device, compute_capability=device.compute_capability or _ANY_CAPABILITY)


def _estimated(info: NodeInfo, estimate: Estimate) -> AsNew:
    """Labels say what a new node has; a report of it would also allow memory shares and MIG instances."""
    model = estimate.model
    # A node whose GPUs are all in MIG mode hands out none of them whole.
    counted = estimate.count or _instances(info)
    is_open = not counted or not _hands_out(info, {estimate.vendor})
    # With `by_allocatable`, the MIG instances of its allocatable count as well.
    least = None if is_open else replace(info, by_allocatable=True)
    wider = replace(
        estimate,
        count=estimate.count or _ANY_COUNT,
        memory_mib=estimate.memory_mib or model.memory_mib or _ANY_MIB,
        compute_capability=estimate.compute_capability or model.compute_capability or _ANY_CAPABILITY,
        cuda_version=estimate.cuda_version or _ANY_VERSION,
    )
    if model.is_mig_slice or estimate.mig_strategy != "none":
        most = replace(info, estimate=wider, by_allocatable=True)
    else:
        most = replace(info, report=_as_report(wider), estimate=None)
    if is_open or info.share_node:
        most = replace(most, allocatable=None)
    is_uncut = is_open and not info.share_node and model.mig_table is not None and not model.is_mig_slice
    return AsNew(least, most, model.name == _UNNAMED, model if is_uncut else None)


def _as_report(estimate: Estimate) -> Report:
    """The GPUs of an estimate, one by one."""
    device = Device(
        "",
        0,
        estimate.vendor,
        estimate.model.name,
        estimate.model,
        estimate.compute_capability,
        Memory(estimate.memory_mib or 0),
    )
    return Report(
        tuple(replace(device, uuid=f"new-{i}", index=i) for i in range(estimate.count)),
        cuda_version=estimate.cuda_version,
        sharing_strategy=estimate.sharing_strategy,
        replicas=estimate.replicas,
    )
