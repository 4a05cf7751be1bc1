"""Promised, unexplained and free memory of one GPU, for lists, page and metrics."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.core.gpu.room import DeviceHoldings, Room
from scheduler_ext.core.node.node import NodeInfo


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """In MiB; ``unaccounted_mib`` is what no pod explains that holds something there, None where it is not
    known; ``free_mib`` is what may still be promised: nothing of a GPU that takes nothing new, or has no
    replica left."""

    requested_mib: int
    unaccounted_mib: int | None
    free_mib: int


def takes_new(info: NodeInfo, device: Device) -> bool:
    """Whether a pod may be sent to this GPU, now or after the node's next report: never to a sick or a
    cordoned one, nor to one of a node whose agent is Missing."""
    return device.healthy and not device.cordoned and info.freshness != "Missing"


def device_usage(info: NodeInfo, device: Device, held: DeviceHoldings, headroom_percent: int) -> DeviceUsage:
    """The memory of one GPU of a node with a report; ``headroom_percent`` is what shares leave untouched, on
    nodes of shares."""
    memory = device.memory
    percent = headroom_percent if info.share_node else 0
    requested = held.requested_mib
    shared = info.report is not None and info.report.sharing_strategy != "none"
    # Where GPUs are shared, several pods may have units that are called one GPU.
    if held.units and not shared:
        # A whole GPU is promised with all it has.
        requested = max(requested, memory.total_mib - memory.reserved_mib)
    for instance in device.mig.instances:
        if instance.uuid in held.instances:
            requested += device.instance_memory_mib(instance)
    known = memory.unaccounted_mib
    return DeviceUsage(
        requested_mib=requested,
        unaccounted_mib=held.foreign_mib or None if known is None else known + held.foreign_mib,
        free_mib=Room.of(memory, held, percent).after(requested - held.requested_mib).free
        if takes_new(info, device) and not _has_no_replica(info, held)
        else 0,
    )


def _has_no_replica(info: NodeInfo, held: DeviceHoldings) -> bool:
    """Whether pods hold every replica of a GPU that is shared by time or MPS: no pod can get a part of it."""
    report = info.report
    return report is not None and report.sharing_strategy != "none" and held.units >= report.replicas
