"""A GPU's MIG side: its profiles, their possible places, and the existing instances."""

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from scheduler_ext.agent.node_reading import InstanceReading, ProfileReading
from scheduler_ext.agent.nvml import OF_GPU, OF_MIG_DEVICE, Handle, Nvml
from scheduler_ext.agent.nvml_errors import NotThere

# NVML has 18 today and refuses the first number that it does not know.
_MAX_PROFILES = 64
# How often instances are listed again when one disappears during the listing.
_ATTEMPTS = 3
# The suffix of a profile's name for each NVML_GPU_INSTANCE_PROFILE_* beside its slices; REV2 (9) is only
# larger.
_SUFFIXES = {
    **dict.fromkeys((0x7, 0x8), "+me"),
    **dict.fromkeys((0xA, 0xB, 0xC, 0x11), "+gfx"),
    **dict.fromkeys((0xD, 0xE), "-me"),
    **dict.fromkeys((0xF, 0x10), "+me.all"),
}
_NAMED = re.compile(r"\bMIG (\S+)$")


def read_profiles(nvml: Nvml, gpu: Handle, total_bytes: int | None) -> tuple[ProfileReading, ...]:
    """All profiles of a GPU, in NVML's order; their places need privilege and are None without it.
    `total_bytes` is the GPU's memory, from which a profile's name is computed if NVML has none."""
    profiles: dict[str, ProfileReading] = {}
    for index in range(_MAX_PROFILES):
        try:
            info, name = nvml.profile(gpu, index)
        except NotThere:
            break
        if info is not None and name is None and total_bytes:
            size = _gigabytes(info.memorySizeMB, total_bytes)
            name = f"{info.sliceCount}g.{size}gb{_SUFFIXES.get(index, '')}"
        if name is None or name in profiles:
            continue
        places = nvml.placements(gpu, info.id)
        profiles[name] = ProfileReading(
            name=name,
            size=places[0][1] if places else None,
            starts=tuple(start for start, _ in places) if places else None,
            max_instances=info.instanceCount,
            memory_mib=info.memorySizeMB,
        )
    return tuple(profiles.values())


def grid_size(profiles: tuple[ProfileReading, ...]) -> int | None:
    """The units of a GPU's placement grid: the end of the last place of any profile."""
    ends = [max(p.starts) + p.size for p in profiles if p.starts and p.size is not None]
    return max(ends, default=None)


def _gigabytes(memory_mib: int, total_bytes: int) -> int:
    """The GB in a profile's name: whole eighths of the GPU's memory, halves rounded up. As in go-nvlib's
    getMigMemorySizeGB; round() would make 3g.70gb of an H200's 3g.71gb."""
    eighths = -(-8 * (memory_mib << 20) // total_bytes)
    return (eighths * -(-total_bytes >> 30) + 4) // 8


def read_instances(nvml: Nvml, gpu: Handle, total_bytes: int | None) -> tuple[InstanceReading, ...]:
    """The MIG devices of a GPU, with their processes; places need privilege and are None without it. A GPU
    instance may be divided into several MIG devices (1c.3g.40gb). Then each has a part of its units, in
    NVML's order and the last with the remainder, so that together they take what the GPU instance takes and
    none overlaps. Such a part is not a place of a profile; device plugins do not offer such devices. A GPU
    instance without any compute instance is no MIG device and is not reported."""
    for _ in range(_ATTEMPTS - 1):
        # A GPU that is partitioned during the reading may show instances from before and after.
        with contextlib.suppress(NotThere):
            return _divided(list(_instances(nvml, gpu, total_bytes)))
    return _divided(list(_instances(nvml, gpu, total_bytes, skip_gone=True)))


def _instances(
    nvml: Nvml, gpu: Handle, total_bytes: int | None, *, skip_gone: bool = False
) -> Iterator[InstanceReading]:
    for index in range(nvml.get("nvmlDeviceGetMaxMigDeviceCount", gpu) or 0):
        # More may follow an index without a device.
        device = nvml.get("nvmlDeviceGetMigDeviceHandleByIndex", gpu, index)
        # An instance without a UUID cannot be reported.
        with contextlib.suppress(*(OF_GPU if skip_gone else OF_MIG_DEVICE)):
            if device is not None and (instance := _instance(nvml, gpu, device, total_bytes)) is not None:
                yield instance


def _instance(nvml: Nvml, gpu: Handle, device: Handle, total_bytes: int | None) -> InstanceReading | None:
    uuid = str(nvml.ask("nvmlDeviceGetUUID", device))
    profile = _profile_name(nvml, device, total_bytes)
    if profile is None:
        return None
    number = nvml.get("nvmlDeviceGetGpuInstanceId", device, absent=OF_MIG_DEVICE)
    place = None
    if number is not None and (parent := nvml.get("nvmlDeviceGetGpuInstanceById", gpu, number)) is not None:
        place = nvml.get("nvmlGpuInstanceGetInfo", parent)
    start, size = (place.placement.start, place.placement.size) if place is not None else (None, None)
    return InstanceReading(uuid, profile, start, size, number, nvml.processes(device, OF_MIG_DEVICE))


def _profile_name(nvml: Nvml, device: Handle, total_bytes: int | None) -> str | None:
    """The profile from the MIG device's name, or from its share of the GPU, without media engines."""
    named = _NAMED.search(nvml.get("nvmlDeviceGetName", device, absent=OF_MIG_DEVICE) or "")
    if named is not None:
        return named[1]
    share = nvml.get("nvmlDeviceGetAttributes_v2", device, absent=OF_MIG_DEVICE)
    if share is None or not total_bytes:
        return None
    slices, computing = share.gpuInstanceSliceCount, share.computeInstanceSliceCount
    part = f"{computing}c." if computing < slices else ""
    return f"{part}{slices}g.{_gigabytes(share.memorySizeMB, total_bytes)}gb"


def _divided(instances: list[InstanceReading]) -> tuple[InstanceReading, ...]:
    shared: defaultdict[int | None, list[int]] = defaultdict(list)
    for i, instance in enumerate(instances):
        if instance.start is not None:
            shared[instance.gpu_instance_id].append(i)
    for members in shared.values():
        start, size = instances[members[0]].start or 0, instances[members[0]].size or 0
        part = size // len(members)
        for order, i in enumerate(members):
            end = size if i == members[-1] else (order + 1) * part
            instances[i] = replace(instances[i], start=start + order * part, size=end - order * part)
    return tuple(instances)
