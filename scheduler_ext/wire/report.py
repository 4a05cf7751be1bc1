"""The content of a GPUNode, checked and as core values. A report that contradicts itself is refused whole,
because half of a wrong report is no better."""

from collections.abc import Hashable, Iterable, Iterator

from scheduler_ext.core.errors import ImpossibleReportError
from scheduler_ext.core.gpu.gpu import Device, Memory, Report
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.wire import gpunode
from scheduler_ext.wire.kube import listed, strings
from scheduler_ext.wire.report_mig import FieldError, check_uuid, read_holder, read_mig

MAX_DEVICES = 64
# Set on a GPUNode by an operator: UUIDs separated by commas.
CORDONED_ANNOTATION = "gpu.scheduler-ext.io/cordoned"


def read_report(node: gpunode.GpuNode, previous: Report | None = None) -> Report | None:
    """The report of a GPUNode, or None if it has no status yet. ``previous`` is the last good report of the
    same node. Raises ImpossibleReportError naming node and field."""
    status = node.status
    if status is None or (status.devices is None and status.sequence is None):
        return None
    metadata = node.metadata or gpunode.GpuNodeMeta()
    cordoned = frozenset(listed(strings(metadata.annotations).get(CORDONED_ANNOTATION, "")))
    try:
        same_boot = previous is not None and status.boot_id == previous.boot_id
        before = previous.sequence if previous is not None and same_boot else None
        if before is not None and status.sequence is not None and status.sequence < before:
            problem = f"went back from {before} to {status.sequence} within bootID {status.boot_id}"
            raise FieldError("sequence", problem)
        devices = _devices(status.devices or [], cordoned)
    except FieldError as error:
        name = metadata.name or "?"
        raise ImpossibleReportError(f"GPUNode {name}: {error}; the report is refused") from None
    partitioned = any(device.mig.enabled for device in devices)
    sharing = status.sharing or gpunode.SharingStatus()
    return Report(
        devices=devices,
        driver_version=status.driver_version,
        cuda_version=_version(status.cuda_version),
        # Without a strategy, partitioned GPUs can only be used as instances.
        mig_strategy=status.mig_strategy or ("mixed" if partitioned else "none"),
        # One replica of each GPU means that the GPUs are not shared.
        sharing_strategy=(sharing.strategy or "none") if sharing.replicas != 1 else "none",
        replicas=sharing.replicas or 1,
        boot_id=status.boot_id,
        sequence=status.sequence,
        reported_at=status.reported_at,
        cordoned_strangers=tuple(sorted(cordoned - {device.uuid for device in devices})),
    )


def _devices(entries: list[gpunode.DeviceStatus], cordoned: frozenset[str]) -> tuple[Device, ...]:
    if len(entries) > MAX_DEVICES:
        raise FieldError("devices", f"{len(entries)} devices; a node has at most {MAX_DEVICES}")
    _check_unique(_uuids(entries))
    _check_unique((f"devices[{i}].index", device.index) for i, device in enumerate(entries))
    return tuple(
        _device(f"devices[{i}]", entry, cordoned=entry.uuid in cordoned) for i, entry in enumerate(entries)
    )


def _check_unique(values: Iterable[tuple[str, Hashable]]) -> None:
    """Raises FieldError for a value that occurs at a second path."""
    seen: dict[Hashable, str] = {}
    for path, value in values:
        if value in seen:
            raise FieldError(path, f"{value!r} is that of {seen[value]} already")
        seen[value] = path


def _uuids(entries: list[gpunode.DeviceStatus]) -> Iterator[tuple[str, str]]:
    """The UUIDs of GPUs, then of their instances: no two on a node are equal."""
    for i, device in enumerate(entries):
        yield f"devices[{i}].uuid", device.uuid
    for i, device in enumerate(entries):
        for j, instance in enumerate((device.mig.instances if device.mig else None) or ()):
            yield f"devices[{i}].mig.instances[{j}].uuid", instance.uuid


def _device(path: str, entry: gpunode.DeviceStatus, *, cordoned: bool) -> Device:
    check_uuid(f"{path}.uuid", entry.uuid)
    memory = _memory(f"{path}.memory", entry.memory)
    vendor, name = (entry.vendor or "nvidia").lower(), entry.model or entry.product or "unknown"
    model = canonical_model(name, vendor=vendor, memory_mib=memory.total_mib)
    health = entry.health or gpunode.HealthStatus()
    capability = _version(entry.compute_capability)
    return Device(
        uuid=entry.uuid,
        index=entry.index,
        vendor=vendor,
        product=entry.product or entry.model or "unknown",
        model=model,
        compute_capability=(capability[0], capability[1]) if capability else model.compute_capability,
        memory=memory,
        healthy=health.state != "Unhealthy",
        health_reason=health.reason or "",
        cordoned=cordoned,
        mig=read_mig(f"{path}.mig", entry.mig or gpunode.MigStatus(), model, memory.total_mib),
        holders=tuple(
            read_holder(f"{path}.holders[{i}]", holder, memory.total_mib)
            for i, holder in enumerate(entry.holders or ())
        ),
    )


def _memory(path: str, entry: gpunode.MemoryStatus) -> Memory:
    memory = Memory(entry.total_mib, entry.reserved_mib or 0, entry.used_mib or 0, entry.unaccounted_mib)
    taken = memory.used_mib + memory.reserved_mib
    # One per cent, because NVML reads its numbers one after the other.
    if taken * 100 > memory.total_mib * 101:
        raise FieldError(
            f"{path}.usedMiB",
            f"used {memory.used_mib} + reserved {memory.reserved_mib} MiB exceed {memory.total_mib} in total",
        )
    if memory.unaccounted_mib is not None and memory.unaccounted_mib > memory.used_mib:
        raise FieldError(
            f"{path}.unaccountedMiB", f"{memory.unaccounted_mib} of {memory.used_mib} MiB that are used"
        )
    return memory


def _version(text: str | None) -> tuple[int, ...] | None:
    return tuple(int(part) for part in text.split(".")) if text else None
