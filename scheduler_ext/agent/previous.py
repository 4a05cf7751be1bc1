"""Readings from an earlier agent's report, for GPUs that no longer answer."""

from __future__ import annotations

from scheduler_ext.agent.node_reading import DeviceReading, InstanceReading, ProfileReading
from scheduler_ext.wire.gpunode import DeviceStatus, GpuNodeStatus, MigStatus, ProfileStatus


def last_readings(status: GpuNodeStatus) -> tuple[DeviceReading, ...]:
    """Readings of a report's devices, without health and momentary values."""
    return tuple(map(_device, status.devices or ()))


def _device(device: DeviceStatus) -> DeviceReading:
    mig = device.mig or MigStatus()
    major, _, minor = (device.compute_capability or "").partition(".")
    return DeviceReading(
        uuid=device.uuid,
        index=device.index,
        total_mib=device.memory.total_mib,
        vendor=device.vendor or "nvidia",
        product=device.product or device.model,
        architecture=device.architecture,
        compute_capability=(int(major), int(minor)) if minor else None,
        numa_node=device.numa_node,
        pci_bus_id=device.pci_bus_id,
        mig_enabled=mig.enabled,
        grid_size=mig.grid_size,
        profiles=tuple(map(_profile, mig.profiles or ())),
        instances=tuple(
            InstanceReading(instance.uuid, instance.profile, instance.start, instance.size)
            for instance in mig.instances or ()
        ),
    )


def _profile(profile: ProfileStatus) -> ProfileReading:
    return ProfileReading(
        name=profile.name,
        size=profile.size or None,
        starts=tuple(profile.starts) or None,
        max_instances=profile.max_instances,
        memory_mib=profile.memory_mib,
    )
