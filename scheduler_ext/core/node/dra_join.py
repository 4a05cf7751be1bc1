"""The devices of ResourceSlices and the agent's report of the same node as one list of GPUs."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from scheduler_ext.core.dra.device import DraDevice, NodeDevices
from scheduler_ext.core.gpu.gpu import Device, Memory, Mig, MigInstance, Report
from scheduler_ext.core.gpu.mig_geometry import Geometry, geometry_for
from scheduler_ext.core.gpu.models import canonical_model

_MEMORY_SLICE = re.compile(r"memorySlice[0-9]{1,2}")


def joined(report: Report | None, devices: NodeDevices) -> tuple[Report | None, NodeDevices]:
    """The report with the GPUs that only slices list, and the devices, each `on` one of these GPUs: by UUID,
    otherwise by PCI bus ID. Without a report, the slices give product, memory and versions."""
    known = report.devices if report is not None else ()
    uuids = {device.uuid for device in known}
    instances = {instance.uuid: device.uuid for device in known for instance in device.mig.instances}
    by_pci = {_short_pci(device.pci_bus_id): device.uuid for device in known if device.pci_bus_id}
    placed: list[DraDevice] = []
    unknown: dict[str, list[DraDevice]] = {}
    for device in devices.devices:
        on = device.gpu if device.gpu in uuids else instances.get(device.uuid or "")
        if on is None and device.pci_bus_id is not None:
            on = by_pci.get(_short_pci(device.pci_bus_id))
        if on is None:
            on = device.gpu
            unknown.setdefault(on, []).append(device)
        placed.append(replace(device, on=on))
    own = replace(devices, devices=tuple(placed))
    first = max((device.index for device in known), default=-1) + 1
    more = [_listed(uuid, first + i, parts) for i, (uuid, parts) in enumerate(unknown.items())]
    if report is not None:
        return (replace(report, devices=(*known, *more)) if more else report), own
    if not more:
        return None, own
    partitioned = any(device.mig.enabled for device in more)
    return (
        Report(
            devices=tuple(more),
            driver_version=devices.driver_version,
            cuda_version=devices.cuda_version,
            mig_strategy="mixed" if partitioned else "none",
            from_slices=True,
        ),
        own,
    )


def _short_pci(pci_bus_id: str | None) -> str:
    """The bus ID with a domain of four digits: NVML writes eight."""
    domain, _, rest = (pci_bus_id or "").lower().partition(":")
    return f"{domain[-4:]}:{rest}" if rest.count(":") else f"0000:{domain}:{rest}"


def _listed(uuid: str, index: int, parts: Sequence[DraDevice]) -> Device:
    """A GPU that only slices list, by its devices: the GPU itself, its MIG instances, or its partitions."""
    whole = next((part for part in parts if part.profile is None), None)
    described = whole or parts[0]
    model = canonical_model(
        described.product, vendor=described.vendor, memory_mib=whole.memory_mib or None if whole else None
    )
    geometry = geometry_for(model.mig_table)
    instances = tuple(_instances(parts, geometry)) if whole is None else ()
    total = (whole.memory_mib if whole else 0) or model.memory_mib or sum(part.memory_mib for part in parts)
    return Device(
        uuid=uuid,
        index=index,
        vendor=described.vendor,
        product=described.product,
        model=model,
        compute_capability=described.compute_capability or model.compute_capability,
        # Its use is not measured.
        memory=Memory(total, stated=total > 0),
        mig=Mig(bool(instances), geometry=geometry, instances=instances),
        pci_bus_id=described.pci_bus_id,
    )


def _instances(parts: Iterable[DraDevice], geometry: Geometry | None) -> Iterator[MigInstance]:
    """The MIG instances among the devices. NVIDIA's driver lists the memory slices of each as capacities."""
    for part in parts:
        if part.profile is None or part.is_planned:
            continue
        profile = geometry.profile(part.profile) if geometry is not None else None
        slices = sorted(int(name[11:]) for name in part.capacity if _MEMORY_SLICE.fullmatch(name))
        start, size = (slices[0], len(slices)) if slices else (None, profile.size if profile else 1)
        yield MigInstance(part.uuid or str(part.id), part.profile, start, size)
