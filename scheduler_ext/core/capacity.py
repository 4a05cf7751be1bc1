"""What can be promised of a GPU at most, and whether more was."""

from __future__ import annotations

from scheduler_ext.core.gpu import Device
from scheduler_ext.core.holdings import share_peaks
from scheduler_ext.core.node import BoundPod, NodeInfo


def shareable_mib(device: Device) -> int:
    """What shares can get of a device at most, were nothing left untouched; 0 of a partitioned one."""
    if device.mig.enabled:
        return 0
    return max(0, device.memory.total_mib - device.memory.reserved_mib)


def overallocated(info: NodeInfo, pod: BoundPod) -> str | None:
    """Why a pod's shares are too many for a GPU of its node, beside all others; None when they are not."""
    devices = info.report.devices if info.report is not None else ()
    promised = dict.fromkeys((device.uuid for device in devices), 0)
    for holder in info.pods:
        if holder.holds and holder.request.shares is not None:
            for uuid, mib in share_peaks(holder, holder.request.shares, devices).items():
                promised[uuid] += mib
    for device in devices:
        asked = any(device.uuid in uuids for uuids in pod.devices.values())
        if asked and promised[device.uuid] > shareable_mib(device):
            return (
                f"GPU {device.uuid} would be promised {promised[device.uuid]} of {shareable_mib(device)} MiB"
            )
    return None
