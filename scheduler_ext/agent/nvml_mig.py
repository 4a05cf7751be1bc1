"""A GPU's MIG side: its profiles, their possible places, and the existing instances."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from scheduler_ext.agent.node_reading import InstanceReading, ProfileReading
from scheduler_ext.agent.nvml import Nvml
from scheduler_ext.agent.nvml_errors import NotReadable, NotThere
from scheduler_ext.agent.nvml_values import Attributes, Handle, ProfileInfo

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

    ``total_bytes`` is the GPU's memory, from which a profile's name is computed where NVML has none.
    """
    profiles: dict[str, ProfileReading] = {}
    for info in _listed(nvml, gpu):
        name = info.name or _computed_name(info, total_bytes)
        if name is None or name in profiles:
            continue
        places = nvml.placements(gpu, info.number)
        profiles[name] = ProfileReading(
            name=name,
            size=places[0][1] if places else None,
            starts=tuple(start for start, _ in places) if places else None,
            max_instances=info.instances,
            memory_mib=info.memory_mib,
        )
    return tuple(profiles.values())


def grid_size(profiles: tuple[ProfileReading, ...]) -> int | None:
    """The units of a GPU's placement grid: the end of the last place of any profile."""
    ends = [max(p.starts) + p.size for p in profiles if p.starts and p.size is not None]
    return max(ends, default=None)


def _listed(nvml: Nvml, gpu: Handle) -> Iterator[ProfileInfo]:
    for index in range(_MAX_PROFILES):
        try:
            info = nvml.profile(gpu, index)
        except NotThere:
            return
        if info is not None:
            yield info


def _computed_name(info: ProfileInfo, total_bytes: int | None) -> str | None:
    if not total_bytes:
        return None
    return f"{info.slices}g.{_gigabytes(info.memory_mib, total_bytes)}gb{_SUFFIXES.get(info.index, '')}"


def _gigabytes(memory_mib: int, total_bytes: int) -> int:
    """The GB in a profile's name: whole eighths of the GPU's memory, halves rounded up.

    As in go-nvlib's getMigMemorySizeGB; round() would make 3g.70gb of an H200's 3g.71gb.
    """
    eighths = -(-8 * (memory_mib << 20) // total_bytes)
    return (eighths * -(-total_bytes >> 30) + 4) // 8


def read_instances(nvml: Nvml, gpu: Handle, total_bytes: int | None) -> tuple[InstanceReading, ...]:
    """The MIG devices of a GPU, with their processes; places need privilege and are None without it.

    A GPU instance may be divided into several MIG devices (1c.3g.40gb). Then each has a part of its units, in
    NVML's order and the last with the remainder, so that together they take what the GPU instance takes and
    none overlaps. Such a part is not a place of a profile; device plugins do not offer such devices. A GPU
    instance without any compute instance is no MIG device and is not reported.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _divided(list(_instances(nvml, gpu, total_bytes)))
        except NotThere:
            # The GPU was partitioned again during the reading, which may mix instances from before and after.
            continue
    return _divided(list(_instances(nvml, gpu, total_bytes, skip_gone=True)))


def _instances(
    nvml: Nvml, gpu: Handle, total_bytes: int | None, *, skip_gone: bool = False
) -> Iterator[InstanceReading]:
    for index in range(nvml.max_mig_devices(gpu)):
        device = nvml.mig_device(gpu, index)
        if device is None:
            continue
        try:
            instance = _instance(nvml, gpu, device, total_bytes)
        except NotThere:
            if not skip_gone:
                raise
        except NotReadable:
            # An instance without a UUID cannot be reported.
            continue
        else:
            if instance is not None:
                yield instance


def _instance(nvml: Nvml, gpu: Handle, device: Handle, total_bytes: int | None) -> InstanceReading | None:
    uuid = nvml.uuid(device)
    profile = _profile_name(nvml, device, total_bytes)
    if profile is None:
        return None
    number = nvml.gpu_instance_id(device)
    start, size = (None if number is None else nvml.placement(gpu, number)) or (None, None)
    return InstanceReading(uuid, profile, start, size, number, nvml.mig_processes(device))


def _profile_name(nvml: Nvml, device: Handle, total_bytes: int | None) -> str | None:
    """The profile from the end of the MIG device's name; otherwise from its share of the GPU, which does not
    show media engines.
    """
    named = _NAMED.search(nvml.mig_name(device) or "")
    if named is not None:
        return named[1]
    share = nvml.attributes(device)
    return _name_of_share(share, total_bytes) if share is not None and total_bytes else None


def _name_of_share(share: Attributes, total_bytes: int) -> str:
    part = f"{share.compute_slices}c." if share.compute_slices < share.gpu_slices else ""
    return f"{part}{share.gpu_slices}g.{_gigabytes(share.memory_mib, total_bytes)}gb"


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
