"""The ledger's drift: memory that pods use beyond what they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.core.gpu.room import DeviceHoldings, Room
from scheduler_ext.core.node.holdings import holdings_of, pod_of, share_peaks
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames


def drift_mib(info: NodeInfo, resources: ResourceNames) -> int:
    """MiB that pods use of a node's GPUs beyond what they hold there, over all GPUs; memory is accounted, not
    fenced. Pods hold whole GPUs and instances with all their memory. Where an agent reports use by pod,
    memory that one pod leaves unused does not cover the use of another."""
    if info.report is None:
        return 0
    held, devices = holdings_of(info, resources).devices, info.report.devices
    promised = {
        pod.uid: share_peaks(pod, pod.request.shares, devices)
        for pod in info.pods
        if pod.holds and pod.request.shares is not None
    }
    return sum(
        held[device.uuid].foreign_mib
        + max(Room.of(device.memory, held[device.uuid]).excess, _excess_by_pod(device, held, info, promised))
        for device in devices
        if not held[device.uuid].units and not device.mig.enabled
    )


def _excess_by_pod(
    device: Device,
    held: Mapping[str, DeviceHoldings],
    info: NodeInfo,
    promised: Mapping[str, Mapping[str, int]],
) -> int:
    """The use of each pod beyond what it holds; never below 0."""
    used: Counter[str] = Counter()
    for holder in device.holders:
        pod = pod_of(holder, info.pods)
        if pod is not None and pod.uid in held[device.uuid].pods:
            used[pod.uid] += holder.memory_mib or 0
    return sum(max(0, mib - promised.get(uid, {}).get(device.uuid, 0)) for uid, mib in used.items())
