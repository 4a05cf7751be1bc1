"""What was read of a node, as the status of its GPUNode."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_ext.agent.health import Health
from scheduler_ext.agent.holders import HolderReading, Holdings
from scheduler_ext.agent.reading import DeviceReading, InstanceReading, NodeReading, ProfileReading
from scheduler_ext.core.models import canonical_model
from scheduler_ext.wire.gpunode import (
    DeviceStatus,
    GpuNodeStatus,
    HealthStatus,
    HolderStatus,
    InstanceStatus,
    MemoryStatus,
    MigStatus,
    ProfileStatus,
    SharingStatus,
    SummaryStatus,
)

_MODEL_CHARS, _REASON_CHARS, _SUMMARY_CHARS = 128, 1024, 256
NO_HOLDINGS = Holdings()


def node_status(
    reading: NodeReading,
    holdings: Mapping[str, Holdings],
    health: Health,
    now: float,
    mig_strategy: str | None = None,
    sharing: SharingStatus | None = None,
) -> GpuNodeStatus:
    """The status, but for when it is written and its number. ``holdings`` are by device UUID."""
    devices = [
        _device(device, holdings.get(device.uuid, NO_HOLDINGS), reading.problem or health.judge(device, now))
        for device in sorted(reading.devices, key=lambda device: device.index)
    ]
    return GpuNodeStatus(
        devices=devices,
        summary=summary(devices),
        driver_version=reading.driver_version,
        cuda_version=reading.cuda_version,
        mig_strategy=mig_strategy,  # type: ignore[arg-type]
        sharing=sharing,
    )


def summary(devices: list[DeviceStatus]) -> SummaryStatus:
    """What the devices come to; the API server refuses one that says anything else."""
    models = ", ".join(dict.fromkeys(device.model for device in devices if device.model))
    total_mib = sum(device.memory.total_mib for device in devices)
    used_mib = sum(device.memory.used_mib or 0 for device in devices)
    return SummaryStatus(
        gpus=len(devices),
        healthy=sum(device.health is None or device.health.state != "Unhealthy" for device in devices),
        model=models if models and len(models) <= _SUMMARY_CHARS else None,
        memory_used_percent=used_mib * 100 // total_mib if total_mib else 0,
    )


def _device(device: DeviceReading, held: Holdings, sickness: str | None) -> DeviceStatus:
    model = canonical_model(device.product or "unknown", vendor=device.vendor, memory_mib=device.total_mib)
    capability = device.compute_capability
    return DeviceStatus(
        uuid=device.uuid,
        index=device.index,
        vendor=device.vendor,
        model=model.name[:_MODEL_CHARS],
        product=device.product,
        architecture=device.architecture,
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        memory=_memory(device, held.unaccounted_mib),
        utilization_percent=device.utilization_percent,
        health=HealthStatus("Unhealthy", sickness[:_REASON_CHARS]) if sickness else HealthStatus("Healthy"),
        numa_node=device.numa_node,
        pci_bus_id=device.pci_bus_id,
        mig=_mig(device, held),
        holders=[_holder(holder) for holder in held.holders] or None,
    )


def _memory(device: DeviceReading, unaccounted_mib: int | None) -> MemoryStatus:
    """NVML reads its numbers one after the other: together they may exceed the total for a moment."""
    used_mib = device.used_mib
    if used_mib is not None:
        used_mib = max(0, min(used_mib, device.total_mib - (device.reserved_mib or 0)))
    if unaccounted_mib is not None:
        unaccounted_mib = min(unaccounted_mib, used_mib or 0)
    return MemoryStatus(device.total_mib, device.reserved_mib, used_mib, unaccounted_mib)


def _mig(device: DeviceReading, held: Holdings) -> MigStatus | None:
    if device.mig_enabled is None and not device.profiles:
        return None
    instances = [_instance(instance, held.instances.get(instance.uuid)) for instance in device.instances]
    return MigStatus(
        enabled=bool(device.mig_enabled),
        grid_size=device.grid_size,
        profiles=[_profile(profile) for profile in device.profiles] or None,
        instances=instances or None,
    )


def _profile(profile: ProfileReading) -> ProfileStatus:
    """Without its placements where those may not be read."""
    placed = profile.starts and profile.size
    return ProfileStatus(
        name=profile.name,
        size=profile.size or 0,
        starts=list(profile.starts or ()) if placed else [],
        max_instances=profile.max_instances,
        memory_mib=profile.memory_mib,
    )


def _instance(instance: InstanceReading, holder: HolderReading | None) -> InstanceStatus:
    placed = instance.start is not None and instance.size is not None
    return InstanceStatus(
        uuid=instance.uuid,
        profile=instance.profile,
        start=instance.start if placed else None,
        size=instance.size,
        holder=_holder(holder) if holder is not None else None,
    )


def _holder(holder: HolderReading) -> HolderStatus:
    return HolderStatus(holder.uid, holder.namespace, holder.name, holder.container, holder.memory_mib)
