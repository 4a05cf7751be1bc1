"""What is promised, unexplained and free of one GPU's memory, as lists and metrics show it."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_ext.core.gpu import Device
from scheduler_ext.core.holdings import DeviceHoldings
from scheduler_ext.core.mig_instances import instance_memory_mib


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """In MiB; ``unaccounted_mib`` is what no pod explains that holds something there, None where nobody could
    tell."""

    requested_mib: int
    unaccounted_mib: int | None
    free_mib: int


def device_usage(device: Device, held: DeviceHoldings, headroom_percent: int, shared: bool) -> DeviceUsage:
    """The memory of one GPU; ``shared`` where several pods may have what is called one GPU."""
    memory = device.memory
    requested = held.requested_mib
    if held.units and not shared:
        # A whole GPU is promised with all it has.
        requested = max(requested, memory.total_mib - memory.reserved_mib)
    for instance in device.mig.instances:
        if instance.uuid in held.instances:
            requested += instance_memory_mib(device, instance)
    known = memory.unaccounted_mib
    return DeviceUsage(
        requested_mib=requested,
        unaccounted_mib=held.foreign_mib or None if known is None else known + held.foreign_mib,
        free_mib=held.free_mib(memory, memory.headroom_mib(headroom_percent), requested),
    )
