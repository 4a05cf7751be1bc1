"""What GPUs did, from the content of GPUNodes whose reports were read (report.py)."""

from collections.abc import Iterator, Mapping

from scheduler_ext.core.gpu.gpu import Holder
from scheduler_ext.core.gpu.readings import HolderReadings, InstanceReadings, NodeReadings, Readings
from scheduler_ext.wire.gpunode import DeviceStatus, GpuNode, HolderStatus


def read_readings(node: GpuNode) -> tuple[Readings, ...]:
    """The readings of each GPU, in the order of the report."""
    devices = (node.status.devices if node.status is not None else None) or ()
    return tuple(_readings(device) for device in devices)


def readings_of(nodes: Mapping[str, GpuNode]) -> NodeReadings:
    """The readings of all these GPUNodes by name."""
    return {name: read_readings(node) for name, node in nodes.items()}


def _readings(device: DeviceStatus) -> Readings:
    instances = (device.mig.instances if device.mig is not None else None) or ()
    return Readings(
        device.uuid,
        device.utilization_percent,
        device.memory_utilization_percent,
        device.power_watts,
        device.temperature_celsius,
        device.sm_clock_mhz,
        tuple(device.throttle_reasons or ()),
        device.idle_seconds,
        tuple((each.xid, each.count) for each in device.xids or ()),
        tuple(InstanceReadings(each.uuid, each.utilization_percent, each.idle_seconds) for each in instances),
        tuple(_holders(device)),
    )


def _holders(device: DeviceStatus) -> Iterator[HolderReadings]:
    """Of holders with a value."""
    held: list[tuple[str | None, HolderStatus]] = [(None, holder) for holder in device.holders or ()]
    if device.mig is not None:
        held += [(each.uuid, each.holder) for each in device.mig.instances or () if each.holder is not None]
    for instance, found in held:
        if found.idle_seconds is not None or found.peak_mib is not None:
            holder = Holder(found.uid or None, found.namespace, found.name, found.container or None)
            yield HolderReadings(holder, instance, found.idle_seconds, found.peak_mib)
