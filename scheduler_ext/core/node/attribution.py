"""Attributes holdings on unknown GPUs to the least part of a node that explains them. The kubelet assigns a
GPU before the agent can see which one; the pod holds it from then on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scheduler_ext.core.gpu.gpu import Device, MigInstance, Report
from scheduler_ext.core.gpu.room import Room
from scheduler_ext.core.node.holdings import Holdings
from scheduler_ext.core.node.node import Node, NodeInfo, Unit
from scheduler_ext.core.node.state import resolve_held
from scheduler_ext.core.request.resource_names import ResourceNames


@dataclass(frozen=True, slots=True)
class Attribution:
    """The holdings of a node, with holdings on unknown devices assigned to as few of them as possible.
    `devices` and `instances` are the UUIDs of those that may be held and may be free: the choice among
    them is arbitrary, but sums over the node are right. `unknown` counts such units by resource."""

    held: Holdings
    devices: frozenset[str] = frozenset()
    instances: frozenset[str] = frozenset()
    unknown: Mapping[str, int] = field(default_factory=dict)


def attribute(
    info: NodeInfo, held: Holdings, resources: ResourceNames, node: Node | None = None
) -> Attribution:
    """Assign holdings on unknown devices to GPUs that may have them. GPUs that accept new pods come first,
    because decisions subtract the holdings from these: the one with the least free memory, or with the most
    if shares are placed, because shares are kept off the emptiest ones (`core.node.state`). `node` is the
    node that these holdings resolve to, if known."""
    unknown = {name: count for name, count in sorted(held.unknown.items()) if count}
    if not unknown or info.report is None:
        return Attribution(held, unknown=unknown)
    node = node or resolve_held(info, held, resources, 0)
    charging = _Charging(info, info.report, held, {uuid: slot.units for uuid, slot in node.gpus})
    for name, count in unknown.items():
        charging.charge(name, count)
    return replace(charging.done(), unknown=unknown)


class _Charging:
    def __init__(
        self, info: NodeInfo, report: Report, held: Holdings, units: Mapping[str | None, tuple[Unit, ...]]
    ) -> None:
        self._before = held
        self._units = units
        self._devices = {
            uuid: replace(here, instances=set(here.instances)) for uuid, here in held.devices.items()
        }
        self._single = report.mig_strategy == "single"
        self._replicas = report.replicas if report.sharing_strategy != "none" else 1
        asks = (ask for pod in info.pods for ask in pod.request.units)
        self._profiles = {ask.resource: ask.profile for ask in asks if ask.profile is not None}
        sign = -1 if info.share_node else 1
        # The charges follow this order; a GPU that a pod has a part of is taken before an untouched one.
        self._order = sorted(
            report.devices,
            key=lambda device: (
                not device.healthy,
                device.cordoned,
                not held.devices[device.uuid].units,
                sign * Room.of(device.memory, held.devices[device.uuid]).free,
                device.index,
            ),
        )
        # One set per charge: one profile may be held completely while another is partly free.
        self._maybe: list[set[str]] = []
        self._maybe_instances: list[set[str]] = []

    def charge(self, resource: str, count: int) -> None:
        """Put so many units of a resource on devices that offer it."""
        free = {}
        for device in self._order:
            offered = sum(unit.free for unit in self._units[device.uuid] if unit.resource == resource)
            charged = self._devices[device.uuid].units - self._before.devices[device.uuid].units
            if offered > charged:
                free[device.uuid] = offered - charged
        partitioned = any(device.mig.enabled for device in self._order if device.uuid in free)
        if resource in self._profiles or (self._single and partitioned):
            self._charge_instances(resource, self._profiles.get(resource), count)
            return
        self._maybe.append(set(free))
        for uuid, units in free.items():
            taken = min(units, count)
            self._devices[uuid].units += taken
            count -= taken

    def _charge_instances(self, resource: str, profile: str | None, count: int) -> None:
        free: list[tuple[Device, MigInstance]] = []
        for device in self._order:
            offered = any(unit.resource == resource for unit in self._units[device.uuid])
            for instance in device.mig.instances if offered else ():
                if profile not in (None, instance.offered_as):
                    continue
                if instance.uuid in self._devices[device.uuid].instances:
                    # Where instances are shared, all but one of its replicas may be those that are unknown.
                    count -= self._replicas - 1
                else:
                    free.append((device, instance))
        needed = -(-max(0, count) // self._replicas)
        self._maybe_instances.append({instance.uuid for _, instance in free if needed})
        for device, instance in free[:needed]:
            self._devices[device.uuid].instances.add(instance.uuid)

    def done(self) -> Attribution:
        """The result. Where a charge takes every place that it may be on, all are held for certain."""
        full = {uuid for uuid, here in self._devices.items() if here.units >= self._replicas}
        taken = {uuid for here in self._devices.values() for uuid in here.instances}
        maybe = set().union(*(places for places in self._maybe if not places <= full))
        instances = set().union(*(places for places in self._maybe_instances if not places <= taken))
        partly = {
            device.uuid
            for device in self._order
            if any(instance.uuid in instances for instance in device.mig.instances)
        }
        held = replace(self._before, devices=self._devices)
        return Attribution(held, frozenset(maybe | partly), frozenset(instances))
