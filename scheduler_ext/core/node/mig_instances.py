"""The MIG instances of a reported device: how large, which of its units are held, where the next may lie."""

from __future__ import annotations

from scheduler_ext.core.gpu.gpu import Device, MigInstance
from scheduler_ext.core.gpu.mig_profile import window
from scheduler_ext.core.gpu.models import GpuModel, canonical_model
from scheduler_ext.core.gpu.room import DeviceHoldings
from scheduler_ext.core.node.node import MigRoom


def slice_model(model: GpuModel, profile: str) -> GpuModel:
    """What a GPU is called under MIG strategy single: A100-80GB-MIG-1G.10GB, which A100 does not match."""
    return canonical_model(f"{model.name}-MIG-{profile.replace('+', '.')}", vendor=model.vendor)


def instance_memory_mib(device: Device, instance: MigInstance) -> int:
    """An instance's memory: as reported or tabled, else its part of the grid; 0 when neither is known."""
    geometry = device.mig.geometry
    if geometry is None:
        return 0
    profile = geometry.profile(instance.profile)
    if profile is not None and profile.memory_mib is not None:
        return profile.memory_mib
    return device.memory.total_mib * instance.size // geometry.grid


def held_mask(device: Device, held: DeviceHoldings) -> int:
    mask = 0
    for instance in device.mig.instances:
        if instance.uuid in held.instances:
            mask |= instance.mask
    return mask


def mig_room(device: Device, held: DeviceHoldings, free: list[MigInstance]) -> MigRoom | None:
    """The possible places of the next of the ``free`` instances, all of one profile; None if unknown."""
    geometry = device.mig.geometry
    profile = geometry.profile(free[0].profile) if geometry is not None and free else None
    if geometry is None or profile is None:
        return None
    mask = held_mask(device, held)
    starts = tuple(
        sorted(
            instance.start
            for instance in free
            if instance.start is not None
            and instance.start in profile.starts
            and not mask & window(profile, instance.start)
        )
    )
    return MigRoom(geometry, mask, profile.name, starts) if starts else None
