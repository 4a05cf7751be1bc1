"""The whole ledger as plain JSON values: who holds what, on which GPU, and how sure that is."""

from __future__ import annotations

from typing import Any

from scheduler_ext.core.gpu import Device, MigInstance
from scheduler_ext.core.holdings import holdings_of
from scheduler_ext.core.node import BoundPod, NodeInfo
from scheduler_ext.core.resources import ResourceNames
from scheduler_ext.core.snapshot import Snapshot


def ledger_dump(snapshot: Snapshot | None, resources: ResourceNames) -> dict[str, Any]:
    """Every node that has GPUs, at one generation."""
    if snapshot is None:
        return {"generation": 0, "nodes": {}}
    return {
        "generation": snapshot.generation,
        "nodes": {
            name: _node(node.info, resources)
            for name, node in sorted(snapshot.nodes.items())
            if node.info.report is not None or node.info.pods
        },
    }


def _node(info: NodeInfo, resources: ResourceNames) -> dict[str, Any]:
    held = holdings_of(info, resources)
    devices = info.report.devices if info.report is not None else ()
    pods = [(pod, _state(pod, info)) for pod in info.pods if pod.holds]
    pods += [(pod, "Nominated") for pod in info.nominated]
    return {
        "unknownDeviceGpus": sum(held.unknown.values()),
        "unplacedShares": [f"{pod.namespace}/{pod.name}" for pod in held.unplaced],
        "devices": {
            device.uuid: {
                "totalMiB": device.memory.total_mib,
                "holdings": [
                    entry for pod, state in pods for entry in _holdings(pod, state, device, resources)
                ],
            }
            for device in devices
        },
    }


def _state(pod: BoundPod, info: NodeInfo) -> str:
    return "Assumed" if pod.uid in info.assumed else "Confirmed"


def _holdings(pod: BoundPod, state: str, device: Device, resources: ResourceNames) -> list[dict[str, Any]]:
    """What a pod holds of one GPU: its shares, its instances, or all of it."""
    sizes = dict(pod.request.shares.running) if pod.request.shares else {}
    if pod.request.shares is not None:
        sizes |= {share.container: share.memory_mib for share in pod.request.shares.init}
    found = [
        _entry(pod, state, container, mib)
        for container, mib in sizes.items()
        if device.uuid in pod.devices.get(container, ())
    ]
    found += [
        _entry(pod, state, instance.holder.container, None, instance)
        for instance in device.mig.instances
        if instance.holder is not None and pod.is_holder(instance.holder)
    ]
    if pod.request.units:
        found += [
            _entry(pod, state, holder.container, device.memory.total_mib)
            for holder in device.holders
            if holder.memory_mib is None and pod.is_holder(holder)
        ]
    return found


def _entry(
    pod: BoundPod, state: str, container: str | None, mib: int | None, instance: MigInstance | None = None
) -> dict[str, Any]:
    return {
        "uid": pod.uid,
        "namespace": pod.namespace,
        "name": pod.name,
        "container": container,
        "memoryMiB": mib,
        "profile": instance.profile if instance is not None else None,
        "start": instance.start if instance is not None else None,
        "state": state,
    }
