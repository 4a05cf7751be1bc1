"""Attributes what is known of a node as a number to the least part of its GPUs that explains it. The kubelet
assigns a GPU before the agent can see which one; the pod holds it from then on. And the device plugin may
offer fewer than there are: allocatable does not say which ones it withholds."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from scheduler_ext.core.gpu.gpu import Device, MigInstance, Report
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX, profile_from_resource
from scheduler_ext.core.gpu.share_memory import DeviceHoldings, ShareMemory
from scheduler_ext.core.node.estimated_slot import whole_names
from scheduler_ext.core.node.holdings import Holdings
from scheduler_ext.core.node.node import Node, NodeInfo, Unit
from scheduler_ext.core.node.offered_instances import withheld_by_layout
from scheduler_ext.core.node.state import resolve_held
from scheduler_ext.core.request.resource_names import ResourceNames

# A MIG instance, and the GPU that has it.
_Placed = tuple[Device, MigInstance]


@dataclass(frozen=True, slots=True)
class Charged:
    """Holdings of a node, some of them on as few devices as possible, and no longer on unknown ones.
    `devices` and `instances` are the UUIDs of those that may be held and may be free: the choice among them
    is arbitrary, but sums over the node are right."""

    held: Holdings
    devices: frozenset[str] = frozenset()
    instances: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Attribution(Charged):
    """What pods hold, with units by resource on `unknown` devices. `taken` is that and the units `beyond`
    allocatable, so that what it leaves is free; `withheld` are the UUIDs of the GPUs and the instances that
    may be those, `closed` of those whose MIG layout is not handed out."""

    unknown: Mapping[str, int] = field(default_factory=dict)
    beyond: Mapping[str, int] = field(default_factory=dict)
    taken: Charged = field(default_factory=lambda: Charged(Holdings()))
    withheld: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()

    def offers(self, uuid: str) -> bool | None:
        """Whether what is free of a GPU, or an instance, is offered; None if it is not known which ones
        are."""
        if uuid in self.closed:
            return False
        if uuid not in self.withheld:
            return True
        arbitrary = self.devices | self.instances | self.taken.devices | self.taken.instances
        return None if uuid in arbitrary else False

    def least_taken(self, uuid: str, known: DeviceHoldings) -> DeviceHoldings:
        """What is surely taken of a GPU; `known` are the holdings that are known to be there."""
        taken = self.taken.held.devices[uuid]
        if uuid not in self.taken.devices:
            return taken
        return replace(known, instances=taken.instances - self.taken.instances)


def attribute(
    info: NodeInfo, held: Holdings, resources: ResourceNames, node: Node | None = None
) -> Attribution:
    """Assign holdings on unknown devices to GPUs that may have them, and then what is not offered. GPUs that
    accept new pods come first, because decisions subtract the holdings from these: the one with the least
    free memory, or with the most if shares are placed, because shares are kept off the emptiest ones
    (`core.node.state`). `node` is the node that these holdings resolve to, if known."""
    unknown = {name: count for name, count in sorted(held.unknown.items()) if count}
    closed = _closed(info)
    if node is None and not unknown and _surely_offered(info, resources):
        return Attribution(held, taken=Charged(held), closed=closed)
    node = node or resolve_held(info, held, resources, 0)
    beyond = dict(node.state.beyond)
    if info.report is None or not (unknown or beyond):
        return Attribution(held, unknown=unknown, beyond=beyond, taken=Charged(held), closed=closed)
    charging = _Charging(info, info.report, held, {uuid: slot.units for uuid, slot in node.gpus})
    for name, count in unknown.items():
        charging.charge(name, count)
    by_pods = taken = charging.done()
    withheld: set[str] = set()
    for name, count in beyond.items():
        withheld |= charging.withhold(name, count)
        taken = charging.done()
    return Attribution(
        by_pods.held, by_pods.devices, by_pods.instances, unknown, beyond, taken, frozenset(withheld), closed
    )


def _closed(info: NodeInfo) -> frozenset[str]:
    """The UUIDs of GPUs that their MIG layout withholds, and of their instances."""
    gpus = withheld_by_layout(info)
    instances = (each for device in info.devices if device.uuid in gpus for each in device.mig.instances)
    return gpus.union(each.uuid for each in instances) if gpus else gpus


def _surely_offered(info: NodeInfo, resources: ResourceNames) -> bool:
    """Whether allocatable has at least as many whole GPUs, or replicas, as there are: a quick look."""
    report, allocatable = info.report, info.allocatable
    if report is None or allocatable is None:
        return allocatable is None
    if any(device.cordoned for device in report.devices):
        return False
    vendors = {device.vendor for device in report.devices}
    if len(vendors) > 1 or any(device.mig.enabled for device in report.devices):
        return False
    shared = report.sharing_strategy != "none"
    names = [name for vendor in vendors for name in whole_names(resources, vendor, shared)]
    units = len(report.devices) * report.replicas_of()
    return sum(allocatable.get(name, 0) for name in names) >= units


class _Charging:
    def __init__(
        self, info: NodeInfo, report: Report, held: Holdings, units: Mapping[str | None, tuple[Unit, ...]]
    ) -> None:
        self._before = held
        self._units = units
        self._devices = _copied(held.devices)
        self._unknown = Counter(held.unknown)
        self._report = report
        sign = -1 if info.share_node else 1
        # The charges follow this order; a GPU that a pod has a part of is taken before an untouched one.
        self._order = sorted(
            report.devices,
            key=lambda device: (
                not device.healthy,
                device.cordoned,
                not held.devices[device.uuid].units,
                sign * ShareMemory.of(device.memory, held.devices[device.uuid]).free,
                device.index,
            ),
        )
        claimed = {device.on for device in info.dra.devices} if info.dra is not None else ()
        self._offerable = [
            device
            for device in self._order
            if device.healthy and not device.cordoned and device.uuid not in claimed
        ]
        # One set per charge: one profile may be held completely while another is partly free.
        self._maybe: list[set[str]] = []
        self._maybe_instances: list[set[str]] = []

    def charge(self, resource: str, count: int) -> None:
        """Put so many units of a resource that pods hold on devices that offer it."""
        if not self._in_instances(resource):
            self._unknown[resource] = self._take(self._free(resource, self._order), count)
            return
        free = self._free_instances(resource, self._order)
        # Where instances are shared, all but one of the replicas of a held one may be those that are unknown.
        held = len(self._instances(resource, self._order)) - len(free)
        replicas = self._report.replicas_of(_profile(resource) or "")
        count = max(0, count - (replicas - 1) * held)
        self._take_instances(free, -(-count // replicas))
        self._unknown[resource] = max(0, count - len(free) * replicas)

    def withhold(self, resource: str, count: int) -> set[str]:
        """Take units that are not offered; returns the UUIDs of the GPUs or instances that may be those."""
        if self._in_instances(resource):
            places = {each.uuid for _, each in self._instances(resource, self._offerable)}
            free = self._free_instances(resource, self._offerable)
            self._take_instances(free, -(-count // self._report.replicas_of(_profile(resource) or "")))
            return places.difference(*(here.instances for here in self._before.devices.values()))
        self._take(self._free(resource, self._offerable), count)
        return {device.uuid for device in self._offerable if self._units_of(device, resource)}

    def _in_instances(self, resource: str) -> bool:
        offering = (device for device in self._order if self._offers(device, resource))
        single = self._report.mig_strategy == "single" and any(device.mig.enabled for device in offering)
        return single or resource.startswith(MIG_PREFIX)

    def _offers(self, device: Device, resource: str) -> bool:
        return any(unit.resource == resource for unit in self._units[device.uuid])

    def _units_of(self, device: Device, resource: str) -> int:
        return sum(unit.free for unit in self._units[device.uuid] if unit.resource == resource)

    def _free(self, resource: str, among: Iterable[Device]) -> dict[str, int]:
        free = {}
        for device in among:
            offered = self._units_of(device, resource)
            charged = self._devices[device.uuid].units - self._before.devices[device.uuid].units
            if offered > charged:
                free[device.uuid] = offered - charged
        return free

    def _take(self, free: Mapping[str, int], count: int) -> int:
        """Take units of these devices; returns how many find none."""
        self._maybe.append(set(free))
        for uuid, units in free.items():
            taken = min(units, count)
            self._devices[uuid].units += taken
            count -= taken
        return count

    def _instances(self, resource: str, among: Iterable[Device]) -> list[_Placed]:
        """The instances that a resource means."""
        profile = _profile(resource)
        return [
            (device, instance)
            for device in among
            if self._offers(device, resource)
            for instance in device.mig.instances
            if profile in (None, instance.offered_as)
        ]

    def _free_instances(self, resource: str, among: Iterable[Device]) -> list[_Placed]:
        every = self._instances(resource, among)
        return [(on, each) for on, each in every if each.uuid not in self._devices[on.uuid].instances]

    def _take_instances(self, free: list[_Placed], count: int) -> None:
        self._maybe_instances.append({instance.uuid for _, instance in free if count})
        for device, instance in free[:count]:
            self._devices[device.uuid].instances.add(instance.uuid)

    def done(self) -> Charged:
        """The result. Where a charge takes every place that it may be on, all are held for certain."""
        full = {uuid for uuid, here in self._devices.items() if here.units >= self._report.replicas_of()}
        taken = {uuid for here in self._devices.values() for uuid in here.instances}
        maybe = set().union(*(places for places in self._maybe if not places <= full))
        instances = set().union(*(places for places in self._maybe_instances if not places <= taken))
        partly = {
            device.uuid
            for device in self._order
            if any(instance.uuid in instances for instance in device.mig.instances)
        }
        held = replace(self._before, devices=_copied(self._devices), unknown=Counter(self._unknown))
        return Charged(held, frozenset(maybe | partly), frozenset(instances))


def _profile(resource: str) -> str | None:
    return profile_from_resource(resource)[0] if resource.startswith(MIG_PREFIX) else None


def _copied(devices: Mapping[str, DeviceHoldings]) -> dict[str, DeviceHoldings]:
    return {uuid: replace(here, instances=set(here.instances)) for uuid, here in devices.items()}
