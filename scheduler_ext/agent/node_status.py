"""The readings of a node as the status of its GPUNode. The API server refuses a status that does not fit its
schema, and the extender a status that contradicts itself, so NVML's values are adjusted or left out: one
unusual number or name must not prevent the rest from being reported."""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from scheduler_ext.agent import fitting
from scheduler_ext.agent.activity import UNOBSERVED, ObservedGpu
from scheduler_ext.agent.fitting import bounded, matching
from scheduler_ext.agent.gpu_health import GpuHealth, log_once
from scheduler_ext.agent.node_reading import DeviceReading, InstanceReading, NodeReading, ProfileReading
from scheduler_ext.core.errors import ImpossibleReportError
from scheduler_ext.core.gpu.mig_profile import MAX_GRID, parse_profile
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.wire import gpunode
from scheduler_ext.wire.report import read_report

log = logging.getLogger(__name__)

# Limits of the schema.
_NAME_CHARS, _ARCHITECTURE_CHARS, _VERSION_CHARS, _REASON_CHARS, _SUMMARY_CHARS = 128, 63, 80, 1024, 256
_NUMA_NODES = range(-1, 1024)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MAX_PROFILES, _MAX_INSTANCES_OF_PROFILE = 32, 64


def node_status(
    reading: NodeReading,
    observed: Mapping[str, ObservedGpu],
    health: GpuHealth,
    now: float,
    mig_strategy: str | None = None,
    sharing: gpunode.SharingStatus | None = None,
    wall: float = 0.0,
    repaired: Mapping[str, float] = MappingProxyType({}),
) -> gpunode.WrittenStatus:
    """The status without its time and sequence number. `observed` is by device UUID. `now` and `wall`
    are as in GpuHealth; `repaired` has the time of an operator's repair by UUID."""
    devices = []
    fitting_devices, left_out = fitting.fitting(reading.devices)
    for text in left_out:
        log_once(log, logging.ERROR, f"not reported: {text}")
    for device in fitting_devices:
        # Also while no GPU can be used: NVML reports XIDs once, and they count when the driver is back.
        judged = health.judge(device, now, wall, repaired.get(device.uuid))
        if reading.problem and not health.lasts(device.uuid):
            # Lasting errors must still be known when the driver is back, possibly to another agent.
            judged = gpunode.HealthStatus("Unhealthy", reading.problem, reset_pending=judged.reset_pending)
        devices.append(_device(device, observed.get(device.uuid, UNOBSERVED), judged))
    devices, left_out = agreeing(devices)
    for text in left_out:
        log_once(log, logging.WARNING, text)
    return gpunode.WrittenStatus(
        devices=devices,
        summary=summary(devices),
        driver_version=_text(reading.driver_version, _VERSION_CHARS),
        cuda_version=matching(fitting.CUDA_VERSION, reading.cuda_version),
        mig_strategy=mig_strategy,  # type: ignore[arg-type]
        sharing=sharing,
    )


def summary(devices: list[gpunode.DeviceStatus]) -> gpunode.SummaryStatus:
    """The totals of the devices; the API server refuses any other."""
    models = list(dict.fromkeys(device.model for device in devices if device.model))
    listed = ", ".join(models)
    total_mib = sum(device.memory.total_mib for device in devices)
    used_mib = sum(device.memory.used_mib or 0 for device in devices)
    return gpunode.SummaryStatus(
        gpus=len(devices),
        healthy=sum(device.health is None or device.health.state != "Unhealthy" for device in devices),
        model=listed if listed.split(", ") == models and len(listed) <= _SUMMARY_CHARS else None,
        memory_used_percent=used_mib * 100 // total_mib if total_mib else None if devices else 0,
    )


def _device(
    device: DeviceReading, observed: ObservedGpu, health: gpunode.HealthStatus
) -> gpunode.DeviceStatus:
    held = observed.held
    model = canonical_model(
        device.product or "unknown", vendor=device.vendor, memory_mib=device.total_mib or None
    )
    capability = device.compute_capability
    return gpunode.DeviceStatus(
        uuid=device.uuid,
        index=device.index,
        vendor=device.vendor,
        model=model.name[:_NAME_CHARS],
        product=_text(device.product, _NAME_CHARS),
        architecture=_text(device.architecture, _ARCHITECTURE_CHARS),
        compute_capability=matching(
            fitting.COMPUTE_CAPABILITY, "{}.{}".format(*capability) if capability else None
        ),
        memory=_memory(device, held.unaccounted_mib),
        health=health.but(reason=_text(health.reason, _REASON_CHARS)),
        numa_node=device.numa_node if device.numa_node in _NUMA_NODES else None,
        pci_bus_id=matching(fitting.PCI_BUS_ID, device.pci_bus_id),
        mig=_mig(device, observed),
        holders=[_bounded(holder) for holder in held.holders] or None,
        **observed.fields,
    )


def _text(text: str | None, most: int) -> str | None:
    return None if text is None else _CONTROL.sub("?", text)[:most]


def _memory(device: DeviceReading, unaccounted_mib: int | None) -> gpunode.MemoryStatus:
    """NVML reads its numbers one after the other, so together they may exceed the total for a moment. A total
    of 0 is unknown, and so are its parts."""
    total_mib = bounded(device.total_mib) or 0
    if not total_mib:
        return gpunode.MemoryStatus(0)
    reserved_mib = bounded(device.reserved_mib, total_mib)
    used_mib = bounded(device.used_mib, total_mib - (reserved_mib or 0))
    # The parts are unknown if the whole is.
    unaccounted_mib = bounded(unaccounted_mib, used_mib) if used_mib is not None else None
    return gpunode.MemoryStatus(total_mib, reserved_mib, used_mib, unaccounted_mib)


def _mig(device: DeviceReading, observed: ObservedGpu) -> gpunode.MigStatus | None:
    if device.mig_enabled is None and not device.profiles:
        return None
    # Without a grid that all profiles fit on, placements are meaningless.
    grid = device.grid_size if device.grid_size and 0 < device.grid_size <= MAX_GRID else 0
    profiles: dict[str, gpunode.ProfileStatus] = {}
    for profile in device.profiles:
        name = _profile_name(profile.name)
        if name is not None and len(profiles) < _MAX_PROFILES:
            profiles.setdefault(name, _profile(name, profile, grid))
    return gpunode.MigStatus(
        enabled=bool(device.mig_enabled),
        grid_size=grid or None,
        profiles=[*profiles.values()] or None,
        instances=_instances(device.instances, profiles, grid, observed) or None,
    )


def _profile_name(name: str) -> str | None:
    """None for a profile that no pod could request: readers of the report do not know its name."""
    try:
        return parse_profile(name)
    except ValueError:
        return None


def _profile(name: str, profile: ProfileReading, grid: int) -> gpunode.ProfileStatus:
    size = profile.size or 0
    starts = sorted({start for start in profile.starts or () if 0 <= start <= grid - size})
    most = bounded(profile.max_instances, _MAX_INSTANCES_OF_PROFILE) or 0
    if size <= 0 or not starts or most <= 0:
        # Its placements may not be read.
        size, starts = 0, []
    return gpunode.ProfileStatus(name, size, starts, most, bounded(profile.memory_mib) or None)


def _instances(
    instances: Iterable[InstanceReading],
    profiles: Mapping[str, gpunode.ProfileStatus],
    grid: int,
    observed: ObservedGpu,
) -> list[gpunode.InstanceStatus]:
    """Each instance, with its place if that is one of its profile's and not taken yet."""
    found = []
    taken: set[int] = set()
    for instance in fitting.fitting_instances(instances):
        name = _profile_name(instance.profile)
        if name is None:
            continue
        holder = observed.held.instances.get(instance.uuid)
        status = gpunode.InstanceStatus(
            instance.uuid,
            name,
            holder=_bounded(holder) if holder else None,
            **observed.instances.get(instance.uuid, {}),
        )
        if instance.start is not None and instance.size is not None:
            units, profile = range(instance.start, instance.start + instance.size), profiles.get(name)
            inside = units and units.start >= 0 and units.stop <= grid
            places = [range(start, start + profile.size) for start in profile.starts] if profile else []
            if inside and (not places or units in places) and taken.isdisjoint(units):
                taken.update(units)
                status = status.but(start=instance.start, size=instance.size)
        found.append(status)
    return found


def _bounded(holder: gpunode.HolderStatus) -> gpunode.HolderStatus:
    return holder.but(memory_mib=bounded(holder.memory_mib), peak_mib=bounded(holder.peak_mib))


def agreeing(devices: Iterable[gpunode.DeviceStatus]) -> tuple[list[gpunode.DeviceStatus], tuple[str, ...]]:
    """The devices in a form that the extender accepts, and a message for each part that had to be left out. A
    device that contradicts itself, or a device before it, loses parts in this order, as far as needed: its
    holders' memory beyond the total, its MIG instances, its memory, and finally the whole device."""
    kept = list(devices)
    if _problem(kept) is None:
        return kept, ()
    found: list[gpunode.DeviceStatus] = []
    left_out = []
    for device in kept:
        problem = _problem([*found, device])
        if problem is not None:
            left_out.append(f"GPU {device.index} contradicts itself, and is reported in part only: {problem}")
        for less in _ever_less(device):
            if _problem([*found, less]) is None:
                found.append(less)
                break
    return found, tuple(left_out)


def _ever_less(device: gpunode.DeviceStatus) -> Iterator[gpunode.DeviceStatus]:
    yield device
    most = device.memory.total_mib
    less = device.but(holders=[_at_most(holder, most) for holder in device.holders or ()] or None)
    if mig := device.mig:
        instances = [each.but(holder=_at_most(each.holder, most)) for each in mig.instances or ()]
        yield less.but(mig=mig.but(instances=instances or None))
        yield less.but(mig=mig.but(instances=None))
        less = less.but(mig=None)
    yield less
    holders = [_at_most(holder, 0) for holder in less.holders or ()]
    yield less.but(memory=gpunode.MemoryStatus(total_mib=0), holders=holders or None)


def _at_most(holder: gpunode.HolderStatus | None, mib: int) -> gpunode.HolderStatus | None:
    """The holder, with its memory limited to `mib`."""
    if holder is None or holder.memory_mib is None or holder.memory_mib <= mib:
        return holder
    return holder.but(memory_mib=mib)


def _problem(devices: Sequence[gpunode.DeviceStatus]) -> str | None:
    try:
        read_report(gpunode.GpuNode(status=gpunode.GpuNodeStatus(devices=list(devices))))
    except ImpossibleReportError as error:
        return str(error)
    return None
