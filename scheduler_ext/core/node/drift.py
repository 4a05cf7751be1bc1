"""How far what agents see differs from what is promised: use that no promise explains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.core.node.holdings import DeviceHoldings, holdings_of, pod_of, share_peaks
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames


def drift_mib(info: NodeInfo, resources: ResourceNames) -> int:
    """MiB that pods use of a node's GPUs beyond what they hold there, over all GPUs; memory is accounted, not
    fenced. Whole GPUs and instances are held with all they have.

    Where an agent tells who uses how much, what one pod leaves unused explains nothing of another's use.
    """
    if info.report is None:
        return 0
    held, devices = holdings_of(info, resources).devices, info.report.devices
    promised = {
        pod.uid: share_peaks(pod, pod.request.shares, devices)
        for pod in info.pods
        if pod.holds and pod.request.shares is not None
    }
    return sum(
        max(_by_sum(device, held[device.uuid]), _by_pods(device, held[device.uuid], info, promised))
        for device in devices
        if not held[device.uuid].units and not device.mig.enabled
    )


def _by_sum(device: Device, held: DeviceHoldings) -> int:
    """Of all that pods use, what is more than all of them hold."""
    explained = (device.memory.unaccounted_mib or 0) + held.departed_mib + held.requested_mib
    return device.memory.used_mib - explained


def _by_pods(
    device: Device, held: DeviceHoldings, info: NodeInfo, promised: Mapping[str, Mapping[str, int]]
) -> int:
    """What each pod is seen to use beyond what it holds; never below 0."""
    used: Counter[str] = Counter()
    for holder in device.holders:
        pod = pod_of(holder, info.pods)
        if pod is not None and pod.uid in held.pods:
            used[pod.uid] += holder.memory_mib or 0
    return held.foreign_mib + sum(
        max(0, mib - promised.get(uid, {}).get(device.uuid, 0)) for uid, mib in used.items()
    )
